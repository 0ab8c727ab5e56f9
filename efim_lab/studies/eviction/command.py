"""`bench eviction`: replays a history under each policy at several capacities; prints a table, and JSON."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from efim_lab.gate.evaluation.figures import markdown
from efim_lab.studies.eviction.history import Touch, read_history
from efim_lab.studies.eviction.policies import DAY, Cost, Farthest, Gdsf, Lru, ReturnTtl
from efim_lab.studies.eviction.tiers import RankedTier, SegmentedTier, SimulatedTier
from kv_store.block import BLOCK_TOKENS, Name

OLD_UNUSED = 60 * DAY
CAPACITIES = 0.05, 0.10, 0.25, 0.50  # of all blocks that there ever are


class Replayed(NamedTuple):
    """Of the blocks that a history reads, the share that a tier had, by number and by cost."""

    policy: str
    capacity: float
    hits: float
    saved: float


def run_eviction(repository: Path, doubled: int) -> None:
    """Replay a repository's history; a token at a depth of `doubled` tokens costs twice what the first one does.

    Raises WorkError if there is no history.
    """
    touches = read_history(repository)
    cost = cost_by_depth(doubled)
    blocks = {name for touch in touches for names in touch[1:] for name in names}
    found, lifetimes = list[Replayed](), dict[str, list[dict[str, int]]]()
    for share in CAPACITIES:
        capacity = max(1, int(share * len(blocks)))
        by_return = ReturnTtl(cost, capacity)
        for name, tier in tiers(capacity, cost, touches, by_return).items():
            found.append(Replayed(name, share, *replay(touches, tier, cost)))
        lifetimes[f"{share:.0%}"] = [each._asdict() for each in by_return.lifetimes()]
    print(f"{len(touches):,} changes, {len(blocks):,} blocks; a token {doubled:,} deep costs twice the first\n")
    print(table(found) + "\n")
    head = {"repository": repository.name, "changes": len(touches), "blocks": len(blocks), "doubled": doubled}
    print(json.dumps({**head, "replayed": [each._asdict() for each in found], "lifetimes": lifetimes}))


def cost_by_depth(doubled: int) -> Cost:
    """Return what a block costs by its depth, in units of what one costs without tokens before it."""
    return lambda depth: 1 + (depth + 0.5) * BLOCK_TOKENS / doubled


def tiers(capacity: int, cost: Cost, touches: Sequence[Touch], by_return: ReturnTtl) -> dict[str, SimulatedTier]:
    """Return an empty tier for each policy, by name."""
    return {
        "LRU, roots first": RankedTier(capacity, Lru(roots_last=False)),
        "LRU, roots last": RankedTier(capacity, Lru(roots_last=True)),
        "LRU, old sooner": RankedTier(capacity, Lru(roots_last=True, old_unused=OLD_UNUSED)),
        "segmented LRU": SegmentedTier(capacity),
        "GDSF": RankedTier(capacity, Gdsf(cost)),
        "TTL by return": RankedTier(capacity, by_return),
        "farthest next read": RankedTier(capacity, Farthest(touches)),
    }


def replay(touches: Sequence[Touch], tier: SimulatedTier, cost: Callable[[int], float]) -> tuple[float, float]:
    """Return the share of blocks read that a tier had, by number and by cost.

    Each change reads the file's blocks as they were, and adds the blocks that the tier lacks. Blocks that the new
    text no longer has are old from then on; the new blocks are added.
    """
    hits, read, saved, spent = 0, 0, 0.0, 0.0
    longest = max(len(touch.before) for touch in touches)
    costs = [0.0]  # of all blocks above a depth
    for depth in range(longest):
        costs.append(costs[-1] + cost(depth))
    for time, before, after in touches:
        here = tier.read(before)
        hits, read = hits + here, read + len(before)
        saved, spent = saved + costs[here], spent + costs[len(before)]
        same = common_blocks(before, after)
        tier.use(before, range(same), time)
        tier.use(before, range(same, len(before)), time, is_old=True)
        tier.use(after, range(same, len(after)), time)
    return hits / read, saved / spent


def common_blocks(one: Sequence[Name], other: Sequence[Name]) -> int:
    """Return how many first blocks two chains have in common."""
    most = min(len(one), len(other))
    return bisect_left(range(most), True, key=lambda at: one[at] != other[at])


def table(found: Sequence[Replayed]) -> str:
    """Format in Markdown the share of cost that each policy saves at each capacity."""
    header = ("cost saved by a tier of", *(f"{share:.0%} of all" for share in CAPACITIES))
    rows = dict[str, list[str]]()
    for each in found:
        rows.setdefault(each.policy, []).append(f"{each.saved:.1%}")
    return markdown.table([header, *((name, *cells) for name, cells in rows.items())])
