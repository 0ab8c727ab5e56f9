"""The rotary embedding that a checkpoint's configuration asks for; needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RopeKind = Literal["default", "linear", "dynamic", "llama3", "yarn", "none"]


@dataclass(frozen=True)
class Rope:
    """How queries and keys are rotated by their position.

    All angles shrink by `factor` ("linear"), or only slow ones ("llama3", "yarn", arXiv 2309.00071): those that turn
    less than `slow` times over the `original` context shrink, those that turn more than `fast` times stay, and those
    between are mixed. "dynamic" changes nothing within the context that the model was trained on, and no more of it
    is used; "none" rotates nothing. `attention` is the factor by which yarn multiplies queries and keys. The numbers
    of a pair are neighbours in weights if it is `interleaved`, else half a head apart. With a `share` below 1 only so
    much of each head, its first numbers, is rotated.
    """

    theta: float = 10000.0
    kind: RopeKind = "default"
    factor: float = 1.0
    original: int = 0
    slow: float = 1.0
    fast: float = 1.0
    attention: float = 1.0
    truncated: bool = True
    interleaved: bool = False
    share: float = 1.0

    def rotated(self, head_dim: int) -> int:
        """Return how many numbers of a head are rotated."""
        return int(head_dim * self.share) // 2 * 2
