"""Shares out the memory that a user grants, by one rule."""

from __future__ import annotations

from typing import NamedTuple

LEAST_COUNTS = 8  # MiB
LEAST_HELD = 8
LEAST_MEMORY = 32  # below this the floors would leave the arenas nothing


class MemoryShares(NamedTuple):
    """The memory of each use, in MiB.

    `arenas`: the keys and values of the places where the user works. `held`: keys and values of dropped places.
    `counts`: the phrases of the workspace's files.
    """

    arenas: int
    held: int
    counts: int


def share_out(memory_mib: int, arena_mib: int = 1) -> MemoryShares:
    """Share out the setting `memory_mib` for a model whose arenas take `arena_mib` each.

    The counts get a seventh, whatever the model. Of the rest, arenas get two thirds, or one arena if that is more.
    Only an arena that does not fit, and the minimums of the other uses, make the sum exceed the setting.
    """
    counts = max(LEAST_COUNTS, memory_mib // 7)
    others = memory_mib - counts
    arenas = max(others * 2 // 3, arena_mib)
    return MemoryShares(arenas, max(LEAST_HELD, others - arenas), counts)
