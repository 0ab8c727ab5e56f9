"""Doubles for the shared tier: a shelf in memory, which can fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Event

from kv_store.shared.shared_tier import SharedTier
from kv_store.shared.shelf import ShelfError, ShelfItem
from kv_store.shared.wire import Sealer
from kv_store.warn_once import WarnOnce
from tests.waiting import HANG, Clock

KEY = "0123456789abcdef" * 4


class MemoryShelf:
    """A shelf that fails with `error`, if there is one, and answers no question while `answers` is not set."""

    def __init__(self) -> None:
        self.values = dict[str, bytes]()
        self.retired = list[str]()
        self.error: ShelfError | None = None
        self.asked, self.gotten, self.put, self.is_closed = 0, 0, 0, False
        self.answers = Event()
        self.answers.set()

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        self._check()
        self.gotten += len(names)
        return [self.values.get(name) for name in names]

    def exists(self, names: Sequence[str]) -> list[bool]:
        self._check()
        return [name in self.values for name in names]

    def put_many(self, values: Mapping[str, bytes]) -> int:
        self._check()
        self.put += len(values)
        self.values |= values
        return len(values)

    def scan(self) -> Iterator[ShelfItem]:
        self._check()
        return (ShelfItem(name, len(value)) for name, value in self.values.items())

    def retire(self, names: Sequence[str]) -> None:
        self._check()
        self.retired += names

    def delete(self, names: Sequence[str]) -> int:
        self._check()
        return sum(self.values.pop(name, None) is not None for name in names)

    def sweep(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def _check(self) -> None:
        self.asked += 1
        assert self.answers.wait(HANG)
        if self.error:
            raise self.error


def shared_tier(shelf: MemoryShelf, clock: Clock, said: list[str] | None = None, encrypt: bool = False) -> SharedTier:
    report = (lambda _: None) if said is None else said.append
    return SharedTier(shelf, Sealer(KEY, "", encrypt), WarnOnce(report), clock)
