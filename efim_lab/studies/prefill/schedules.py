"""When cold prefill of one prompt is done that several devices share, in each way of sharing it.

A schedule is a function of the costs, the prompt's tokens, the devices and the link between each two of them; it
returns seconds. Devices compute and links carry at the same time. One device alone always takes `costs.seconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from efim_lab.studies.prefill.costs import Link, PrefillCosts

Cuts = Sequence[int]  # device i has the tokens from cuts[i] to cuts[i + 1]
Way = Callable[[PrefillCosts, int, int, Link], float]

MIXES = 20  # cuts that are tried between even and balanced ones


def even_cuts(tokens: int, devices: int) -> list[int]:
    """Give each device equally many tokens."""
    return [tokens * device // devices for device in range(devices + 1)]


def balanced_cuts(costs: PrefillCosts, tokens: int, devices: int) -> list[int]:
    """Give each device equally much work: the later its tokens are, the fewer, since they attend to more."""
    whole = costs.seconds(0, tokens)
    return [round(costs.reached(whole * device / devices)) for device in range(devices)] + [tokens]


def by_tokens(costs: PrefillCosts, cuts: Cuts, link: Link) -> float:
    """Return when devices are done that have consecutive tokens (KV-Runahead, arXiv 2405.05329).

    Each device goes through the layers with its own tokens. A layer begins with their keys and values, whose
    projections are not counted by themselves, and goes on once the keys and values of all earlier tokens are there:
    the device before sends them, its own and those it received, in one message a layer.
    """
    devices = len(cuts) - 1
    done, carried = [0.0] * devices, [0.0] * devices  # the layer before; what the link to this device has carried
    for _ in range(costs.layers):
        ready = 0.0  # when the device before has all keys and values up to its end
        for device, (start, end) in enumerate(pairwise(cuts)):
            arrived = 0.0
            if device:
                carried[device] = max(ready, carried[device]) + link.seconds(start * costs.kv_bytes / costs.layers)
                arrived = carried[device] + link.latency
            ready = max(arrived, done[device])
            done[device] = ready + costs.seconds(start, end) / costs.layers
    return max(done)


def even_tokens(costs: PrefillCosts, tokens: int, devices: int, link: Link) -> float:
    """Cut the prompt into equally many tokens for each device; see `by_tokens`."""
    return by_tokens(costs, even_cuts(tokens, devices), link)


def uneven_tokens(costs: PrefillCosts, tokens: int, devices: int, link: Link) -> float:
    """Cut the prompt where it is done soonest, between even cuts and balanced ones; see `by_tokens`.

    Balanced cuts are best for devices, but send more over the last link: a slow one is better served by even cuts.
    """
    even, balanced = even_cuts(tokens, devices), balanced_cuts(costs, tokens, devices)
    mixes = ([a + (b - a) * mix // MIXES for a, b in zip(even, balanced, strict=True)] for mix in range(MIXES + 1))
    return min(by_tokens(costs, cuts, link) for cuts in mixes)


def by_layers(costs: PrefillCosts, tokens: int, devices: int, link: Link) -> float:
    """Return when a pipeline of chunks through layers is done (the sequence pipeline of Mnemosyne, arXiv 2409.17264).

    Each device has consecutive layers, and their keys and values. It sends a chunk's hidden numbers on, and takes the
    next chunk at once: nothing waits for the prompt's earlier tokens to leave the last layer.
    """
    stages = min(devices, costs.layers)
    shares = [(costs.layers * (i + 1) // stages - costs.layers * i // stages) / costs.layers for i in range(stages)]
    done, carried = [0.0] * stages, [0.0] * stages
    for start in range(0, tokens, costs.chunk):
        end, arrived = min(start + costs.chunk, tokens), 0.0
        size = (end - start) * costs.hidden_bytes
        for stage, share in enumerate(shares):
            if stage:
                carried[stage] = max(done[stage - 1], carried[stage]) + link.seconds(size)
                arrived = carried[stage] + link.latency
            done[stage] = max(done[stage], arrived) + share * costs.seconds(start, end)
    return done[-1]


def by_keys(costs: PrefillCosts, tokens: int, devices: int, link: Link) -> float:
    """Return when devices are done that each hold a part of the keys (KV parallelism of Mnemosyne).

    All of them compute each chunk except its attention; of this, each computes the part of its keys. Partial
    softmaxes are merged by an all-reduce in each layer, for which all wait. Only attention becomes faster, and each
    device needs memory for its part of the keys alone.
    """
    return _with_all_reduce(costs, tokens, devices, link, lambda start, end: (end - start) * costs.partial_bytes)


def by_latents(costs: PrefillCosts, tokens: int, devices: int, link: Link) -> float:
    """Return when devices are done that each hold a part of every latent (TPLA, arXiv 2508.15881), exactly.

    As `by_keys`, but devices sum the scores of all keys in each layer: the price of exactness, which TPLA does not
    pay (it scores by each part alone, and only while decoding).
    """
    return _with_all_reduce(
        costs, tokens, devices, link, lambda start, end: costs.keys(start, end) * costs.score_bytes
    )


def _with_all_reduce(
    costs: PrefillCosts, tokens: int, devices: int, link: Link, size: Callable[[int, int], float]
) -> float:
    """Share out attention alone, and all-reduce `size` bytes of each chunk in each layer, around a ring."""
    steps, seconds = 2 * (devices - 1), 0.0
    for start in range(0, tokens, costs.chunk):
        end = min(start + costs.chunk, tokens)
        exchange = steps * (link.latency + link.seconds(size(start, end) / devices))
        attention = costs.key * costs.keys(start, end) / devices
        seconds += costs.token * (end - start) + attention + costs.layers * exchange
    return seconds


def ways(costs: PrefillCosts) -> dict[str, Way]:
    """Return the schedules by name: `by_latents` only for models that have latents."""
    named: dict[str, Way] = {
        "even tokens": even_tokens,
        "uneven tokens": uneven_tokens,
        "layers": by_layers,
        "keys": by_keys,
    }
    return named | ({"latents": by_latents} if costs.score_bytes else {})
