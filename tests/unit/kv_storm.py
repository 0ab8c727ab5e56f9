"""A server of its own process: reads commands, and forks others that write without end until they are killed.

python -m tests.unit.kv_storm PATH SLOTS
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from kv_store.block import Block
from kv_store.disk.disk_tier import DiskTier
from tests.unit.kv_blocks import SLOT, chain_of, names_of, read, same, tier_of

CHAINS, LENGTH = 12, 8
SIZES = (SLOT, 3 * SLOT - 5, SLOT, 7)
PROGRESS = b"."


def blocks(chain: int) -> list[Block]:
    return chain_of(chain, LENGTH, SIZES)


def sound(tier: DiskTier) -> bool:
    """Whether all that can be read is what was written."""
    chains = ((read(tier, names_of(chain, LENGTH)), blocks(chain)) for chain in range(CHAINS))
    return all(same(found, whole[: len(found)]) for found, whole in chains)


def telling(some: list[Block], pipe: int) -> Iterator[Block]:
    for block in some:
        os.write(pipe, PROGRESS)
        yield block


def storm(path: Path, slots: int, first: int, pipe: int) -> None:
    """Write chains in turn, which do not all fit, and remove some."""
    tier = tier_of(path, slots)
    for turn in count(first):
        tier.save(telling(blocks(turn % CHAINS), pipe))
        list(tier.read(names_of(turn % CHAINS, LENGTH)))
        if turn % 7 == 0:
            tier.remove_document(1)


def main() -> None:
    path, slots = Path(sys.argv[1]), int(sys.argv[2])
    tier = tier_of(path, slots)
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "storm":
            first, pipe = map(int, numbers)
            if (child := os.fork()) == 0:
                storm(path, slots, first, pipe)
            print(child, flush=True)
        elif command == "reap":
            os.waitpid(int(numbers[0]), 0)
            print("reaped", flush=True)
        elif command == "write":
            tier.save(blocks(int(numbers[0])))
            print("written", flush=True)
        elif command == "lookup":
            print(tier.lookup(names_of(int(numbers[0]), LENGTH)), flush=True)


if __name__ == "__main__":
    main()
