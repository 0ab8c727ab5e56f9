"""What prefill costs: a device's seconds, the bytes that go between devices, and the links that they go over."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple, cast

from efim_lab.gate.errors import WorkError


class PrefillCosts(NamedTuple):
    """Seconds of one device, of all layers together, and bytes of one token.

    A token costs `token` seconds and `key` seconds for each token before it. Devices exchange its keys and values (of
    all layers), its `hidden` numbers between two layers, or its `partial` results of a layer's attention: what heads
    found in a part of the keys, and by which scores. `score` are the bytes of its scores of one key in one layer, of
    models that keep latents; 0 of others. Passes have `chunk` tokens.
    """

    token: float
    key: float
    layers: int
    chunk: int
    kv_bytes: int
    hidden_bytes: int
    partial_bytes: int
    score_bytes: int = 0

    def seconds(self, start: int, end: int) -> float:
        """Return how long one device takes for the tokens from `start` to `end`."""
        return self.token * (end - start) + self.key * self.keys(start, end)

    def keys(self, start: int, end: int) -> float:
        """Count the pairs of a token from `start` to `end` and one before it."""
        return (end * end - start * start) / 2

    def reached(self, seconds: float) -> float:
        """Return which token one device reaches from the beginning in these seconds."""
        if self.key == 0:
            return seconds / self.token
        return (math.sqrt(self.token**2 + 2 * self.key * seconds) - self.token) / self.key


class Link(NamedTuple):
    """Each link between two devices: gigabits a second, and seconds until the first bit has arrived."""

    gigabits: float
    latency: float

    def seconds(self, size: float) -> float:
        """Return how long `size` bytes occupy the link."""
        return 8e-9 * size / self.gigabits


def read_costs(path: Path) -> PrefillCosts:
    """Read costs from a JSON object with the fields of PrefillCosts; raises WorkError if it is none."""
    expected = ", ".join(PrefillCosts._fields)
    try:
        costs = PrefillCosts(**cast("dict[str, Any]", json.loads(path.read_text("utf-8"))))
    except (OSError, ValueError, TypeError) as error:
        raise WorkError(f"{path} holds no costs ({error}): write a JSON object with {expected}") from error
    values: list[Any] = list(costs)
    are_numbers = all(isinstance(value, (int, float)[: 1 + (at < 2)]) for at, value in enumerate(values))
    if not are_numbers or costs.token <= 0 or min(costs) < 0 or min(costs.layers, costs.chunk) < 1:
        raise WorkError(f"{path} has a cost that is none: token, layers and chunk are above 0, others not below it")
    return costs
