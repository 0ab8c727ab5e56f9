"""Levels of a store: whatever they are, what is read is what was saved, and each holds only what it admits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kv_store import open as opening
from kv_store.block import BLOCK_TOKENS, Block, Name
from kv_store.disk.record import KNOWN_FORMS
from kv_store.memory import MemoryTier
from kv_store.open import DISK, MEMORY, StoreOptions, open_store
from kv_store.store import ComputedBlocks, Store
from kv_store.tier import Level, Origin, Reach, StoreContext, Tier, TierStats
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import KvLayout
from tests.unit.kv_blocks import FINGERPRINT, tier_of
from tests.waiting import HANG

SHAPE = KvLayout.keys_and_values(1, 1, 2)
SLOT = SHAPE.token_bytes * BLOCK_TOKENS
BEGIN = 32  # the position of the first token of all chains
CODEC = KvCodec(SHAPE, BLOCK_TOKENS, (np.exp(1j * np.arange(BEGIN + 64)[:, None]).astype(np.complex64),))
LENGTH = 4  # of the longest chain, in blocks
LONG = 1000  # tokens of a sequence whose first blocks are not its end: they may have a lossy form
DOCUMENTS = 3


class LateTier:
    """A tier that looks elsewhere: it does not know whether it has a block until it was asked `late` times."""

    def __init__(self, capacity_bytes: int, late: int) -> None:
        self.inner, self._late = MemoryTier(capacity_bytes, SLOT), late
        self._asked = Counter[Name]()
        self.is_reached = True

    def lookup(self, names: Sequence[Name]) -> int | None:
        if len(self._known(names)) < len(names):
            self._asked.update(names)
            return None
        return self.inner.lookup(names)

    def read(self, names: Sequence[Name]) -> Iterator[Block]:
        return self.inner.read(self._known(names))

    def save(self, blocks: Iterable[Block]) -> None:
        self.inner.save(blocks)

    def touch(self, names: Sequence[Name]) -> None:
        self.inner.touch(names)

    def pin(self, names: Sequence[Name]) -> None:
        self.inner.pin(names)

    def retire(self, names: Sequence[Name]) -> None:
        self.inner.retire(names)

    def remove_document(self, document: int) -> bool:
        return self.is_reached and self.inner.remove_document(document)

    def share_memory(self, parts: int) -> None:
        self.inner.share_memory(parts)

    def stats(self) -> TierStats:
        return self.inner.stats()

    def close(self) -> None:
        self.inner.close()

    def _known(self, names: Sequence[Name]) -> list[Name]:
        return list(takewhile(lambda name: self._asked[name] >= self._late, names))


def never() -> bool:
    return False


def ids_of(chain: Sequence[int]) -> np.ndarray:
    return np.repeat(np.array(chain, np.int32), BLOCK_TOKENS)


def rows_of(name: Name) -> np.ndarray:
    """Rows that only this block has, from 0 to 1."""
    return np.random.default_rng(list(name)).random((2, *SHAPE.planes[0].shape(BLOCK_TOKENS)), np.float32)


def computed_of(names: Sequence[Name]) -> ComputedBlocks:
    return ComputedBlocks(names, lambda i: rows_of(names[i]), len(names), LONG, BEGIN)


def read(store: Store, names: Sequence[Name], first: int = 0) -> int:
    """Read blocks and return how many; they must be what was saved, or as near as int8 is."""
    at = first
    for rows, exact in store.read(names, first, never, BEGIN):
        off = np.abs(rows - rows_of(names[at])).max()
        assert off == 0 if exact else off < 2 / 127
        at += 1
    return at - first


def memory_level(slots: int) -> Level:
    return Level(MemoryTier(slots * SLOT, SLOT), Form.RAW, behind=False, reach=Reach.PROCESS)


def late_level(tier: LateTier, patience: float = 0) -> Level:
    return Level(tier, Form.RAW, behind=True, reach=Reach.NETWORK, patience=patience)


def disk_level(folder: Path, slots: int, form: Form) -> Level:
    return Level(tier_of(folder / "blocks.kv", slots, slot_bytes=SLOT), form, behind=True, reach=Reach.DISK)


CHAINS = st.lists(st.integers(0, 1), min_size=1, max_size=LENGTH)
ORIGINS = st.builds(Origin, st.integers(1, DOCUMENTS), st.sampled_from(Reach))
SLOTS = st.sampled_from((0, 2, 5, 64))


class TwoLevels(RuleBasedStateMachine):
    """A store beside sets of documents: those whose saving may have brought a level each of its blocks."""

    def slow(self, slots: int) -> list[Level]:
        return []

    @initialize(memory=SLOTS, slow=SLOTS, disk=st.integers(1, 40), form=st.sampled_from((Form.RAW, Form.INT8)))
    def start(self, memory: int, slow: int, disk: int, form: Form) -> None:
        self.folder = TemporaryDirectory()
        self.roomy = memory == 64
        self.levels = [memory_level(memory), *self.slow(slow), disk_level(Path(self.folder.name), disk, form)]
        self.store = Store(FINGERPRINT, CODEC, self.levels)
        chains = [chain for length in range(1, LENGTH + 1) for chain in product((0, 1), repeat=length)]
        self.names = {name for chain in chains for name in self.store.names(ids_of(chain))}
        self.brought = [{name: set[int]() for name in self.names} for _ in self.levels]
        self.saved = set[tuple[Name, ...]]()

    @rule(origin=ORIGINS, chain=CHAINS, looks=st.integers(0, 2 * LENGTH))
    def save(self, origin: Origin, chain: list[int], looks: int) -> None:
        """Save a chain, or less of it if it is stopped at the look after so many."""
        names, cancel = self.store.names(ids_of(chain)), iter([False] * looks)
        for level, brought in zip(self.levels, self.brought, strict=True):
            for name in names if level.admits(origin) else ():
                brought[name].add(origin.document)
        if self.store.save(origin, computed_of(names), lambda: next(cancel, True)):
            self.saved.add(tuple(names))
        assert self.store.flush(HANG)

    @rule(chain=CHAINS, first=st.integers(0, LENGTH - 1))
    def read(self, chain: list[int], first: int) -> None:
        names = self.store.names(ids_of(chain))
        found = read(self.store, names, first)
        if self.roomy and tuple(names) in self.saved:
            assert found == max(0, len(names) - first), "memory has room for all that was saved"

    @rule(chain=CHAINS)
    def lookup(self, chain: list[int]) -> None:
        names = self.store.names(ids_of(chain))
        self.store.lookup(names)
        assert self.store.lookup(names) == read(self.store, names), "once all levels know"

    @rule(document=st.integers(0, DOCUMENTS), chain=CHAINS)
    def visit(self, document: int, chain: list[int]) -> None:
        self.store.visit(document)
        self.store.pin(document, self.store.names(ids_of(chain)))

    @rule(origin=ORIGINS)
    def withdraw(self, origin: Origin) -> None:
        self.store.withdraw(origin)
        assert self.store.flush(HANG)
        for level, brought in zip(self.levels, self.brought, strict=True):
            for documents in brought.values() if not level.admits(origin) else ():
                documents.discard(origin.document)

    @invariant()
    def every_level_has_only_what_it_admits(self) -> None:
        for level, brought in zip(self.levels, self.brought, strict=True):
            tier: Tier = level.tier.inner if isinstance(level.tier, LateTier) else level.tier
            assert {name for name in self.names if tier.lookup([name])} <= {n for n, by in brought.items() if by}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.close(HANG)
            self.folder.cleanup()


class ThreeLevels(TwoLevels):
    """The same with a level between that answers late and is on another machine."""

    def slow(self, slots: int) -> list[Level]:
        return [late_level(LateTier(slots * SLOT, late=1))]


TestTwoLevels, TestThreeLevels = TwoLevels.TestCase, ThreeLevels.TestCase
TestTwoLevels.settings = TestThreeLevels.settings = settings(stateful_step_count=25)


def refuse_to_wait(_: float) -> NoReturn:
    raise AssertionError("it waits")


def saved_late(late: int, patience: float, *others: Level) -> tuple[Store, list[Name]]:
    """A store with a level that answers late, after a chain was saved in it; its memory has no room."""
    store = Store(FINGERPRINT, CODEC, [memory_level(0), late_level(LateTier(8 * SLOT, late), patience), *others])
    names = store.names(ids_of([0, 1, 0]))
    assert store.save(Origin(1, Reach.NETWORK), computed_of(names), never) and store.flush(HANG)
    return store, names


def test_a_level_that_does_not_know_yet_has_nothing_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving asked once."""
    store, names = saved_late(late=2, patience=0)
    monkeypatch.setattr(time, "sleep", refuse_to_wait)
    assert read(store, names) == 0
    assert store.lookup(names) == 0
    assert store.lookup(names) == read(store, names) == 3
    assert store.close(HANG)


def test_reading_waits_for_a_level_as_long_as_its_patience() -> None:
    store, names = saved_late(late=4, patience=60)
    assert read(store, names) == 3
    assert store.close(HANG)


class ComingTier(LateTier):
    """A tier whose blocks come one by one, each `pause` seconds of a clock after the one before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
        super().__init__(8 * SLOT, late=0)
        self.now, self.pause, self.waited = 0.0, pause, 0.0
        self.answer_seconds = self.block_seconds = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self._sleep)

    def lookup(self, names: Sequence[Name]) -> int | None:
        return super().lookup(names) if self._known(names) else None

    def stats(self) -> TierStats:
        return replace(super().stats(), answer_seconds=self.answer_seconds, block_seconds=self.block_seconds)

    def _known(self, names: Sequence[Name]) -> list[Name]:
        come = list(self.inner.read(ALL_COMING))[: int(self.now / self.pause)]
        return list(takewhile({block.name for block in come}.__contains__, names))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds


ALL_COMING = Store(FINGERPRINT, CODEC, []).names(ids_of([0, 1, 0]))


def read_coming(tier: ComingTier, patience: float, *, worth: float | None = None, cancel_at: float = 1e9) -> int:
    tier.inner.save(
        Block(name, bytes(16), 1, Form.RAW, False, CODEC.encode(rows_of(name), BEGIN + i * BLOCK_TOKENS, Form.RAW))
        for i, name in enumerate(ALL_COMING)
    )
    store = Store(FINGERPRINT, CODEC, [late_level(tier, patience)])
    return len(list(store.read(ALL_COMING, 0, lambda: tier.now >= cancel_at, BEGIN, worth)))


def test_patience_is_counted_from_the_last_block_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_coming(ComingTier(monkeypatch, pause=0.2), patience=0.3) == 3
    assert read_coming(ComingTier(monkeypatch, pause=0.4), patience=0.3) == 0


def test_waiting_ends_where_nobody_knows_what_computing_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = ComingTier(monkeypatch, pause=0.7)
    assert read_coming(tier, patience=0.9) == 1 and tier.waited < 1.1


def test_waiting_ends_when_nobody_wants_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = ComingTier(monkeypatch, pause=1)
    assert read_coming(tier, patience=1.5, worth=9, cancel_at=1.5) == 1 and tier.waited < 1.6
    assert read_coming(tier := ComingTier(monkeypatch, pause=1), patience=1.5, cancel_at=0) == 0 == tier.waited


def test_waiting_takes_no_longer_than_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = ComingTier(monkeypatch, pause=1)
    assert read_coming(tier, patience=1.5, worth=0.5) == 1 and 1.4 < tier.waited < 1.6


def test_a_level_that_is_slower_than_computing_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = ComingTier(monkeypatch, pause=1)
    tier.block_seconds = 1.1
    assert read_coming(tier, patience=1.5, worth=1.0) == 0 == tier.waited
    assert read_coming(tier, patience=1.5, worth=1.2) == 3


def test_a_level_whose_answers_take_longer_than_computing_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = ComingTier(monkeypatch, pause=1)
    tier.answer_seconds = 3.3
    assert read_coming(tier, patience=1.5, worth=1.0) == 0 == tier.waited
    assert read_coming(tier, patience=1.5, worth=1.2) == 3


def test_looking_up_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    store, names = saved_late(late=4, patience=60)
    monkeypatch.setattr(time, "sleep", refuse_to_wait)
    assert store.lookup(names) == 0
    assert store.close(HANG)


def test_what_a_level_does_not_know_in_time_is_missing() -> None:
    store, names = saved_late(late=1 << 60, patience=0.02)
    assert read(store, names) == 0
    assert store.close(HANG)


def test_what_another_level_has_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, names = saved_late(1 << 60, 60, disk_level(tmp_path, 8, Form.RAW))
    monkeypatch.setattr(time, "sleep", refuse_to_wait)
    assert read(store, names) == 3
    assert store.close(HANG)


def test_a_lossy_form_is_read_at_the_position_that_it_was_saved_at(tmp_path: Path) -> None:
    store = Store(FINGERPRINT, CODEC, [disk_level(tmp_path, 8, Form.INT8)])
    names = store.names(ids_of([0, 1, 0]))
    assert store.save(Origin(1, Reach.NETWORK), computed_of(names), never) and store.flush(HANG)
    assert [exact for _, exact in store.read(names, 0, never, BEGIN)] == [True, False, False]
    assert read(store, names) == 3
    assert store.close(HANG)


def test_a_level_that_nobody_writes_behind_is_withdrawn_from_at_once() -> None:
    store = Store(FINGERPRINT, CODEC, [memory_level(8)._replace(reach=Reach.DISK)])
    names = store.names(ids_of([0, 1]))
    assert store.save(Origin(1, Reach.NETWORK), computed_of(names), never) and store.lookup(names) == 2
    store.withdraw(Origin(1, Reach.DISK))
    assert store.lookup(names) == 2
    store.withdraw(Origin(1, Reach.PROCESS))
    assert store.lookup(names) == 0
    assert store.close(HANG)


@pytest.mark.parametrize("reach", Reach)
def test_each_level_gets_what_may_reach_it(tmp_path: Path, reach: Reach) -> None:
    levels = [memory_level(8), disk_level(tmp_path, 8, Form.RAW), late_level(LateTier(8 * SLOT, late=0))]
    store = Store(FINGERPRINT, CODEC, levels)
    names = store.names(ids_of([0, 1]))
    assert store.save(Origin(1, reach), computed_of(names), never) and store.flush(HANG)
    assert [each.blocks for each in store.stats()] == [2 * (level.reach <= reach) for level in levels]
    assert store.close(HANG)


def test_blocks_are_removed_from_a_tier_once_it_is_reached() -> None:
    """And as often as it gets some again, but not at each saving."""
    tier = LateTier(8 * SLOT, late=0)
    store = Store(FINGERPRINT, CODEC, [late_level(tier)])
    names, public, private = store.names(ids_of([0, 1])), Origin(1, Reach.NETWORK), Origin(1, Reach.PROCESS)
    for _ in range(2):
        assert store.save(public, computed_of(names), never) and store.flush(HANG)
        tier.is_reached = False
        store.withdraw(private)
        assert store.flush(HANG) and tier.stats().blocks == 2
        tier.is_reached = True
        store.withdraw(private)
        assert store.flush(HANG) and tier.stats().blocks == 0
    tier.save([Block(names[0], bytes(16), 1, Form.RAW, False, np.zeros(SLOT, np.uint8))])
    store.withdraw(private)
    assert store.flush(HANG) and tier.stats().blocks == 1, (
        "it was reached before, and got nothing by this store since"
    )
    assert store.close(HANG)


def test_a_third_tier_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_late(context: StoreContext, options: Mapping[str, Any]) -> Level:
        return late_level(LateTier(options["slots"] * context.codec.size(Form.RAW), late=0))

    memory, disk = (opening.TIERS[name] for name in (MEMORY, DISK))
    monkeypatch.setattr(opening, "TIERS", {MEMORY: memory, "late": open_late, DISK: disk})
    levels = {DISK: {"bytes": 1 << 20, "form": Form.RAW}, "late": {"slots": 2}, MEMORY: {"bytes": SLOT}}
    opened = open_store(FINGERPRINT, CODEC, "model", StoreOptions(levels, tmp_path), print)
    names = opened.store.names(ids_of([0, 1, 0]))
    assert opened.store.save(Origin(1, Reach.NETWORK), computed_of(names), never) and opened.store.flush(HANG)
    assert [(each.name, each.blocks) for each in opened.store.stats()] == [("memory", 1), ("memory", 2), ("disk", 3)]
    assert opened.folder and opened.notes and (opened.folder / "about.json").exists()
    assert opened.store.close(HANG)


def test_the_files_forms_are_the_codecs() -> None:
    whole = {"RAW": 0, "INT8": 1, "BF16": 2}
    parts = {f"PART_{name}": 8 + form for name, form in whole.items()}
    states = {f"STATE_{name}": 16 + form for name, form in whole.items()}
    assert {form.name: form.value for form in Form} == {**whole, **parts, **states}
    assert {*KNOWN_FORMS} == {form + part + state for form in whole.values() for part in (0, 8) for state in (0, 16)}
