"""A thread that writes blocks to a slow tier, so that no keystroke waits for it."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from kv_store.block import Block, Name
from kv_store.tier import Tier

PENDING_BYTES = 1 << 26  # the most that may wait for a slow tier; more blocks are refused

logger = logging.getLogger(__name__)


class Writer:
    """Writes to a tier in the order of the calls; blocks that wait together become one batch."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        # What follows is changed under this lock only.
        self._changed = threading.Condition()
        self._pending: OrderedDict[Name, Block] = OrderedDict()  # including those that are being written
        self._bytes = 0
        self._jobs: list[Callable[[], None]] = []
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    def save(self, block: Block) -> bool:
        """Queue a block, whose data must not change any more; returns false if too much is waiting already."""
        with self._changed:
            if block.name not in self._pending:
                if self._bytes + len(block.data) > PENDING_BYTES:
                    return False
                self._pending[block.name] = block
                self._bytes += len(block.data)
                self._changed.notify_all()
        return True

    def is_pending(self, name: Name) -> bool:
        """Return whether a block is still to be written."""
        return name in self._pending

    def submit(self, job: Callable[[], None]) -> None:
        """Call a function on the writer's thread, after all blocks queued before."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all is written; return whether it is."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, seconds)

    def discard(self) -> None:
        """Drop all blocks and jobs that have not been started."""
        with self._changed:
            self._jobs.clear()
            self._pending.clear()
            self._bytes = 0

    def close(self, seconds: float) -> bool:
        """Write the queue and end the thread; returns false if that takes longer than `seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _is_idle(self) -> bool:
        return not (self._pending or self._jobs or self._busy)

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            blocks, jobs = batch
            for job in (partial(self._tier.save, blocks), *jobs):
                try:
                    job()
                except Exception as error:  # a mistake of ours: it costs the write, not the thread
                    logger.error("writing to the %s tier failed", self._tier.stats().name, exc_info=error)
            self._finish(blocks)

    def _next_batch(self) -> tuple[list[Block], list[Callable[[], None]]] | None:
        """Wait for blocks or jobs and return all of them; None after `close` when nothing is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._jobs or self._closed)
            if self._is_idle():
                return None
            self._busy = True
            blocks, jobs = list(self._pending.values()), self._jobs
            self._jobs = []
            return blocks, jobs

    def _finish(self, blocks: list[Block]) -> None:
        with self._changed:
            for block in blocks:
                if self._pending.pop(block.name, None):
                    self._bytes -= len(block.data)
            self._busy = False
            self._changed.notify_all()
