"""Identical requests that are under way at the same time are one piece of work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

R = TypeVar("R")
T = TypeVar("T")


class Sharing(Generic[R, T]):
    """The latest work of each key, and how many ask for it. Used on the event loop only."""

    def __init__(self, begin: Callable[[R], asyncio.Future[T]]) -> None:
        """Have work begun by `begin`, whose result stops it when it is cancelled."""
        self._begin = begin
        self._under_way: dict[Hashable, _Work[R, T]] = {}

    async def answer(self, key: Hashable, request: R) -> T:
        """What an equal request with this key waits for already, or what new work brings; raises what it raises.

        Cancelling this stops the work where nobody else asks for it.
        """
        work = self._under_way.get(key)
        if work is None or work.answer.done() or work.request != request:
            work = self._under_way[key] = _Work(request, self._begin(request))
        work.asking += 1
        try:
            return await asyncio.shield(work.answer)
        finally:
            work.asking -= 1
            if not work.asking:
                self._end(key, work)

    def _end(self, key: Hashable, work: _Work[R, T]) -> None:
        work.answer.cancel()
        if self._under_way.get(key) is work:
            del self._under_way[key]


class _Work(Generic[R, T]):
    def __init__(self, request: R, answer: asyncio.Future[T]) -> None:
        self.request, self.answer, self.asking = request, answer, 0
