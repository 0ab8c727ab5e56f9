"""DroidSpeak (arXiv 2411.02820): a tuned model goes on from its base's keys and values, except in some layers.

The layers that are computed again follow each other, and the first of them reads what the base's layer read. Which
layers these are is profiled once for a pair of models, at other places than the measured places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from efim_lab.gate.evaluation.places.cursors import Context, line_at
from efim_lab.studies.reuse.figures import Measured, divergences
from efim_lab.studies.reuse.network import LayerKv, LayerTrace, Network
from efim_lab.studies.reuse.places import ReusePlace
from efim_lab.studies.reuse.subject import NEW_TOKENS, ReuseSubject, Rows, Target
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import arena_bytes
from model_runtime.kv.sequence import Quality

BEFORE, AFTER = 1600, 800  # characters of a window before the cursor and after its line
SHARES = (0.0, 0.125, 0.25, 0.4)  # of the layers, at most, that are computed again
FOLLOWED = 8  # tokens of the completion after which distributions are compared
EXACT = "its own"

Found = dict[tuple[str, str], list[Measured]]  # by "base" and the layers that are computed again


@dataclass(frozen=True)
class Prompt:
    """A prompt's tokens, what should follow, and what both models made of all tokens but the last."""

    ids: Ids
    target: Target
    base: Sequence[LayerTrace]
    tuned: Sequence[LayerTrace]
    file: str


class Pair:
    """A base and a model that was tuned from it: the same tokenizer, and the same shape, with other weights."""

    def __init__(self, base: ReuseSubject, tuned: ReuseSubject) -> None:
        """Take both; ModelError if keys and values of one mean nothing to the other."""
        if base.config != tuned.config or base.tokenizer.token_bytes != tuned.tokenizer.token_bytes:
            raise ModelError("the two models differ in shape or tokenizer: name a model and a model tuned from it")
        self.tuned = tuned
        self._networks = [Network(each.config, each.weights) for each in (base, tuned)]

    def prompt(self, place: ReusePlace) -> Prompt:
        """Compute the prompt at a place with both models."""
        line, anchor = line_at(place.text, place.row)
        head, end = place.text[max(0, anchor - BEFORE) : anchor], anchor + len(line)
        context = Context(head, place.context.typed, place.text[end + 1 : end + 1 + AFTER], 1)
        ids, target = self.tuned.window(context, place.rest)
        base, tuned = (network.run(ids[:-1])[1] for network in self._networks)
        return Prompt(ids, target, base, tuned, place.file)

    def shared(self, prompt: Prompt, layers: range) -> Arena:
        """Return an arena of the tuned model with the base's keys and values, some layers' computed again."""
        kept = [trace.kv for trace in prompt.base]
        if layers:
            again = self._networks[1].run_layers(prompt.base[layers.start].hidden, prompt.ids[:-1], layers)
            kept[layers.start : layers.stop] = again
        return self._filled(prompt, kept)

    def own(self, prompt: Prompt) -> Arena:
        """Return an arena with the tuned model's own keys and values."""
        return self._filled(prompt, [trace.kv for trace in prompt.tuned])

    def _filled(self, prompt: Prompt, kept: Sequence[LayerKv]) -> Arena:
        arena = self.tuned.arena()
        planes = [torch.stack([each[part] for each in kept]).numpy() for part in range(2)]
        arena.copy_in(prompt.ids[:-1], planes, Quality.BORROWED)
        return arena

    def profiled(self, prompts: Sequence[Prompt]) -> Mapping[float, range]:
        """Return, for each share of the layers, those that are best computed again: with the least divergence."""
        count = len(self.tuned.config.layers)
        exact = [self._next(self.own(prompt), prompt) for prompt in prompts]

        def divergence(layers: range) -> float:
            rows = [self._next(self.shared(prompt, layers), prompt) for prompt in prompts]
            return float(np.mean([divergences(*pair) for pair in zip(exact, rows, strict=True)]))

        return {share: min(_groups(count, share), key=divergence) for share in SHARES}

    def _next(self, arena: Arena, prompt: Prompt) -> Rows:
        return np.asarray(self.tuned.decoder.forward(prompt.ids[-1:], arena))


def _groups(count: int, share: float) -> Iterator[range]:
    """Yield the runs of layers of the largest size within a share."""
    size = int(share * count)
    yield from (range(start, start + size) for start in range(count - size + 1)) if size else (range(0),)


def measure_pair(
    pair: Pair, places: Sequence[ReusePlace], training: Sequence[ReusePlace], progress: Callable[[int], None]
) -> Found:
    """Measure a pair at every place, with layers that were profiled at the places to train on."""
    chosen = pair.profiled([pair.prompt(place) for place in training])
    found, count = Found(), len(pair.tuned.config.layers)
    for done, place in enumerate(places):
        progress(done)
        prompt = pair.prompt(place)
        exact = pair.own(prompt)
        tokens, rows = _completed(pair.tuned, exact, prompt)
        for layers in (None, *chosen.values()):
            arena = exact if layers is None else pair.shared(prompt, layers)
            name, share = (EXACT, 1.0) if layers is None else (_named(layers, count), len(layers) / count)
            figures = _measured(pair.tuned, arena, prompt, tokens, rows, share)
            found.setdefault(("keys and values", name), []).append(figures)
    return found


def _named(layers: range, count: int) -> str:
    which = f"{layers.start} to {layers.stop - 1}" if layers else "none"
    return f"the base's, {which} of {count} layers again"


def _completed(subject: ReuseSubject, arena: Arena, prompt: Prompt) -> tuple[list[int], Rows]:
    """Return the greedy completion up to the end of its line, and the logits [tokens, vocab] it was chosen from."""
    row = np.asarray(subject.decoder.forward(prompt.ids[-1:], arena))
    rows, tokens = [row], [subject.choose(row[0], [], prompt.target)]
    while len(tokens) < NEW_TOKENS and not subject.ends(tokens[-1]):
        row = np.asarray(subject.decoder.forward(np.array(tokens[-1:], dtype=np.int32), arena))
        rows.append(row)
        tokens.append(subject.choose(row[0], tokens, prompt.target))
    arena.truncate(len(prompt.ids) - 1)
    return tokens, np.concatenate(rows)


def _measured(
    subject: ReuseSubject, arena: Arena, prompt: Prompt, expected: list[int], exact: Rows, share: float
) -> Measured:
    tokens, _ = _completed(subject, arena, prompt)
    row = np.concatenate((prompt.ids[-1:], np.array(expected[:-1], dtype=np.int32)))
    rows = np.asarray(subject.decoder.forward(row, arena, len(row)))
    length = len(prompt.ids)
    return Measured(
        file=prompt.file,
        recomputed=share * length,
        tokens=length,
        ms=0.0,
        bytes=arena_bytes(subject.config, length),
        kl=divergences(exact, rows)[:FOLLOWED],
        same=tokens == expected,
        exact=subject.is_right(tokens, prompt.target),
    )
