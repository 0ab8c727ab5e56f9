"""Tiers as one store: what is read, what goes down, whose blocks stay, and the folder of a model."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_store import store as stores
from kv_store import writer as writers
from kv_store.block import BLOCK_TOKENS, Block
from kv_store.memory import MemoryTier
from kv_store.open import DISK, MEMORY, OpenedStore, StoreOptions, open_store
from kv_store.store import REMEMBERED_DOCUMENTS, ComputedBlocks, Store
from kv_store.tier import Level, Origin, Reach
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import KvLayout
from tests.waiting import HANG

SHAPE = KvLayout.keys_and_values(1, 1, 2)
SLOT = SHAPE.token_bytes * BLOCK_TOKENS
CODEC = KvCodec(SHAPE, BLOCK_TOKENS, None)
MIB = 1 << 20
A, B = 1, 2


def never() -> bool:
    return False


def row(seed: int, blocks: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1000, blocks * BLOCK_TOKENS).astype(np.int32)


def numbers_of(name: bytes) -> np.ndarray:
    """Keys and values that only this block has."""
    return np.random.default_rng(list(name)).random((2, *SHAPE.planes[0].shape(BLOCK_TOKENS)), np.float32)


def save(store: Store, document: int, ids: np.ndarray, private: bool = False, exact: int = 99) -> list[bytes]:
    names = store.names(ids)
    computed = ComputedBlocks(names, lambda i: numbers_of(names[i]), exact, len(ids))
    assert store.save(Origin(document, Reach.PROCESS if private else Reach.DISK), computed, never)
    store.pin(document, names)
    store.flush(HANG)
    return names


def save_unpinned(store: Store, names: list[bytes]) -> None:
    computed = ComputedBlocks(names, lambda i: numbers_of(names[i]), len(names), len(names) * BLOCK_TOKENS)
    assert store.save(Origin(0, Reach.PROCESS), computed, never)


def read(store: Store, names: list[bytes], first: int = 0) -> int:
    """Read blocks and return how many; they must be what was saved."""
    found = 0
    for found, (numbers, exact) in enumerate(store.read(names, first, never), 1):
        assert np.array_equal(numbers, numbers_of(names[first + found - 1])) and exact
    return found


def options(folder: Path | None, memory: int = 64 * SLOT, form: Form = Form.RAW) -> StoreOptions:
    disk = {DISK: {"bytes": MIB, "form": form}} if folder else {}
    return StoreOptions({MEMORY: {"bytes": memory}, **disk}, folder)


def memory_only(capacity: int, slot: int = SLOT, codec: KvCodec = CODEC) -> Store:
    return Store(
        bytes(32), codec, [Level(MemoryTier(capacity, slot), codec.exact, behind=False, reach=Reach.PROCESS)]
    )


def open_in(folder: Path | None, **wanted: object) -> OpenedStore:
    return open_store(bytes(32), CODEC, "model", options(folder, **wanted), print)  # type: ignore[arg-type]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedStore]:
    """A store whose memory holds four blocks."""
    opened = open_in(tmp_path, memory=4 * SLOT)
    yield opened
    assert opened.store.close(HANG)


def test_blocks_that_memory_has_no_room_for_come_from_disk(opened: OpenedStore) -> None:
    names = save(opened.store, A, row(0, 10))
    memory, disk = opened.store.stats()
    assert (memory.blocks, disk.blocks) == (4, 10)
    assert opened.store.lookup(names) == read(opened.store, names) == 10
    assert read(opened.store, names, first=7) == 3


def test_blocks_not_meant_for_disk_stay_in_memory(opened: OpenedStore) -> None:
    names = save(opened.store, A, row(0, 3), private=True)
    assert [tier.blocks for tier in opened.store.stats()] == [3, 0]
    assert read(opened.store, names) == 3


def test_a_chain_ends_where_no_tier_has_the_next_block(opened: OpenedStore) -> None:
    names = save(opened.store, A, row(0, 3))
    longer = opened.store.names(np.concatenate((row(0, 3), row(1, 2))))
    assert longer[:3] == names
    assert opened.store.lookup(longer) == read(opened.store, longer) == 3
    assert opened.store.lookup(opened.store.names(row(5, 2))) == 0


def test_saving_again_writes_nothing(opened: OpenedStore) -> None:
    save(opened.store, A, row(0, 3))
    before = [tier.written for tier in opened.store.stats()]
    save(opened.store, B, row(0, 3))
    assert [tier.written for tier in opened.store.stats()] == before


def test_blocks_computed_from_approximations_are_approximate(tmp_path: Path) -> None:
    store = open_in(tmp_path).store
    names = save(store, A, row(0, 4), exact=2)
    assert [exact for _, exact in store.read(names, 0, never)] == [True, True, False, False]
    store.close(HANG)


def test_a_document_that_was_left_counts_as_just_used() -> None:
    store = memory_only(8 * SLOT)
    store.visit(A)
    names = save(store, A, row(0, 4))
    unneeded = store.names(row(1, 4))
    store.save(Origin(0, Reach.PROCESS), ComputedBlocks(unneeded, lambda i: numbers_of(unneeded[i]), 4, 64), never)
    store.visit(B)
    save(store, B, row(2, 4))
    assert (store.lookup(names), store.lookup(unneeded)) == (4, 0)


def test_the_document_in_front_is_never_evicted() -> None:
    store = memory_only(4 * SLOT)
    store.visit(A)
    names = save(store, A, row(0, 4))
    save(store, B, row(1, 4))
    assert store.lookup(names) == 4 and store.lookup(store.names(row(1, 4))) == 0


def test_blocks_that_memory_refuses_still_go_to_disk(opened: OpenedStore) -> None:
    store = opened.store
    store.visit(A)
    save(store, A, row(0, 3))
    names, numbers = store.names(row(1, 6)), list[int]()

    def computed(i: int) -> np.ndarray:
        numbers.append(i)
        return numbers_of(names[i])

    assert store.save(Origin(B, Reach.DISK), ComputedBlocks(names, computed, 6, 96), never) and store.flush(HANG)
    memory, disk = store.stats()
    assert (memory.blocks, disk.blocks) == (4, 9)
    assert numbers == list(range(6))
    assert store.save(Origin(B, Reach.DISK), ComputedBlocks(names, computed, 6, 96), never)
    assert numbers == [*range(6), 1], "all but what memory has no room for is there"
    assert read(store, names) == 6


def test_a_document_is_pinned_again_when_the_user_comes_back(opened: OpenedStore) -> None:
    store = opened.store
    store.visit(A)
    names = save(store, A, row(0, 4))
    store.leave(A)
    store.visit(A)
    save(store, B, row(1, 4))
    assert store._levels[0].tier.lookup(names) == 4
    store.visit(B)
    save(store, B, row(1, 4))
    assert store._levels[0].tier.lookup(names) in range(4)


def test_blocks_survive_closing_the_store(tmp_path: Path) -> None:
    first = open_in(tmp_path)
    names = save(first.store, A, row(0, 5))
    first.store.close(HANG)
    second = open_in(tmp_path)
    assert read(second.store, names) == 5
    second.store.close(HANG)


def test_approximate_and_exact_blocks_never_share_a_file(tmp_path: Path) -> None:
    exact, other = open_in(tmp_path), open_in(tmp_path, memory=0, form=Form.INT8)
    assert exact.folder != other.folder and other.approximate
    ids = row(0, 20)
    save(other.store, A, ids)
    assert exact.store.lookup(exact.store.names(ids)) == 0
    found = [exact for _, exact in other.store.read(other.store.names(ids), 0, never)]
    assert found == [True] + [False] * 11 + [True] * 8
    exact.store.close(HANG)
    other.store.close(HANG)


def test_memory_is_exact_whatever_the_codec_of_the_disk(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        opened = open_in(folder, form=Form.INT8)
        assert opened.approximate is (folder is not None)
        assert read(opened.store, save(opened.store, A, row(0, 20))) == 20
        opened.store.close(HANG)


def bf16_numbers_of(name: bytes) -> np.ndarray:
    return (numbers_of(name).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize("form", [Form.BF16, Form.INT8])
def test_bf16_takes_two_bytes_in_memory_and_on_disk_and_comes_back_exactly(tmp_path: Path, form: Form) -> None:
    """With a lossy disk the ends of a sequence are bf16, as they would be raw."""
    codec_of_bf16, half = KvCodec(SHAPE, BLOCK_TOKENS, None, Form.BF16), SLOT // 2
    opened = open_store(bytes(32), codec_of_bf16, "model", options(tmp_path, 4 * half, form), print)
    names = opened.store.names(row(0, 20))
    computed = ComputedBlocks(names, lambda i: bf16_numbers_of(names[i]), 99, 320)
    assert opened.store.save(Origin(A, Reach.DISK), computed, never)
    opened.store.flush(HANG)
    memory, disk = opened.store.stats()
    assert (memory.blocks, memory.bytes) == (4, 4 * half)
    assert disk.blocks == 20 and (form is Form.INT8 or disk.bytes == 20 * half)
    lossy = 0
    for name, (numbers, exact) in zip(names, opened.store.read(names, 0, never), strict=True):
        assert exact == np.array_equal(numbers, bf16_numbers_of(name))
        lossy += not exact
    assert lossy == (8 if form is Form.INT8 else 0), "the first four are in memory, the last eight are recent"
    opened.store.close(HANG)


def test_numbers_that_bf16_cannot_hold_are_kept_raw() -> None:
    codec_of_bf16 = KvCodec(SHAPE, BLOCK_TOKENS, None, Form.BF16)
    store = memory_only(8 * SLOT, SLOT // 2, codec_of_bf16)
    assert read(store, save(store, A, row(0, 3), private=True)) == 3


def test_without_a_folder_nothing_is_on_disk() -> None:
    opened = open_in(None)
    assert opened.notes is None and opened.folder is None
    names = save(opened.store, A, row(0, 3))
    assert read(opened.store, names) == 3
    opened.store.close(HANG)


def let_age(folder: Path, days: int) -> None:
    for path in folder.iterdir():
        then = path.stat().st_mtime - days * 24 * 3600
        os.utime(path, (then, then))


def test_models_unused_for_long_are_removed(tmp_path: Path) -> None:
    folders = {}
    for name in (b"old", b"new"):
        opened = open_store(name.ljust(32), CODEC, "model", options(tmp_path), print)
        assert opened.store.close(HANG) and opened.folder
        folders[name] = opened.folder
    let_age(folders[b"old"], days=40)
    (tmp_path / "mine").mkdir()
    open_in(tmp_path).store.close(HANG)
    assert not folders[b"old"].exists()
    assert folders[b"new"].exists() and (tmp_path / "mine").exists()


def test_blocks_and_notes_together_stay_within_disk_bytes(tmp_path: Path) -> None:
    opened = open_in(tmp_path)
    assert opened.notes is not None
    for n in range(200):
        save(opened.store, n + 1, row(n, 30), private=False)
        opened.notes.write(n + 1, os.urandom(3000))
    opened.store.close(HANG)
    assert opened.folder is not None
    sizes = {path.name: path.stat().st_size for path in opened.folder.rglob("*") if path.is_file()}
    assert sum(sizes.values()) - sizes["about.json"] <= MIB
    assert sizes["blocks.kv"] > MIB / 2


def test_a_65th_document_unpins_the_one_visited_longest_ago() -> None:
    """Memory has room for four blocks, all of them a document's that is being edited."""
    store, last = memory_only(4 * SLOT), REMEMBERED_DOCUMENTS + 1
    names = {document: store.names(row(document, 4)) for document in range(1, last + 1)}
    for document in range(1, last):
        store.pin(document, names[document])
    store.visit(1)
    store.visit(2)
    store.pin(last, names[last])
    assert REMEMBERED_DOCUMENTS == 64
    for document, pinned in ((1, True), (2, True), (3, False), (4, True), (last, True)):
        store.visit(document)
        save_unpinned(store, names[document])
        save_unpinned(store, store.names(row(1000 + document, 4)))
        assert (store.lookup(names[document]) == 4) is pinned, document
        store.visit(0)


@pytest.mark.parametrize(("days", "there"), [(29, True), (31, False)])
def test_a_models_folder_is_removed_after_thirty_days_without_use(tmp_path: Path, days: int, there: bool) -> None:
    opened = open_store(b"old".ljust(32), CODEC, "model", options(tmp_path), print)
    assert opened.store.close(HANG) and opened.folder
    let_age(opened.folder, days)
    open_in(tmp_path).store.close(HANG)
    assert opened.folder.exists() is there


LENGTHS = st.integers(0, 4 * BLOCK_TOKENS)
ID_LISTS = LENGTHS.flatmap(lambda length: st.lists(st.integers(0, 2), min_size=length, max_size=length))
IDS = ID_LISTS.map(lambda ids: np.array(ids, np.int32))


@given(IDS, st.binary(min_size=1, max_size=2), LENGTHS)
def test_what_else_a_block_was_computed_from_names_it(ids: np.ndarray, seen: bytes, unaffected: int) -> None:
    store = memory_only(SLOT)
    plain, names = store.names(ids), store.names(ids, seen, unaffected)
    same = min(unaffected, len(ids)) // BLOCK_TOKENS
    assert len(names) == len(plain) == len(ids) // BLOCK_TOKENS
    assert names[:same] == plain[:same]
    alone = store.names_alone(ids)
    assert {*plain}.isdisjoint(alone)
    others = {*plain, *alone, *store.names(ids, seen + b"more", unaffected)[same:]}
    assert others.isdisjoint(names[same:])


@given(IDS, IDS, LENGTHS)
def test_excerpts_that_were_computed_alone_share_the_blocks_with_which_they_begin_alike(
    some: np.ndarray, others: np.ndarray, shared: int
) -> None:
    store, both = memory_only(SLOT), (some, np.concatenate((some[:shared], others)))
    one, other = ([tuple(ids[at : at + BLOCK_TOKENS]) for at in range(0, len(ids), BLOCK_TOKENS)] for ids in both)
    alike = sum(one[:count] == other[:count] for count in range(1, min(len(one), len(other)) + 1))
    names, others_names = (store.names_alone(ids) for ids in both)
    assert (len(names), len(others_names)) == (len(one), len(other))
    assert names[:alike] == others_names[:alike]
    assert {*names[alike:]}.isdisjoint(others_names[alike:])


@pytest.mark.parametrize("looks", range(4))
def test_a_save_that_is_stopped_keeps_its_first_blocks(opened: OpenedStore, looks: int) -> None:
    store, ids = opened.store, row(0, 4)
    names, asked = store.names(ids), iter([False] * looks + [True])
    computed = ComputedBlocks(names, lambda i: numbers_of(names[i]), 4, len(ids))
    assert not store.save(Origin(A, Reach.DISK), computed, lambda: next(asked))
    assert store.flush(HANG)
    assert [tier.blocks for tier in store.stats()] == [looks, looks]
    save(store, A, ids)
    assert read(store, names) == 4


def test_a_disk_that_stays_behind_costs_only_what_it_would_have_kept(
    opened: OpenedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "PENDING_BYTES", 0)
    monkeypatch.setattr(stores, "WRITE_PATIENCE", 0)
    names = save(opened.store, A, row(0, 3))
    assert [tier.blocks for tier in opened.store.stats()] == [3, 0]
    assert read(opened.store, names) == 3


def test_saving_waits_for_a_disk_that_is_behind(opened: OpenedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "PENDING_BYTES", SLOT)
    monkeypatch.setattr(stores, "WRITE_PATIENCE", HANG)
    names = save(opened.store, A, row(0, 8))
    assert opened.store.stats()[1].blocks == len(names)


def test_a_block_of_another_size_than_its_form_has_ends_what_is_read() -> None:
    tier, names = MemoryTier(8 * SLOT, SLOT), [bytes([n]) * 16 for n in range(3)]
    store = Store(bytes(32), CODEC, [Level(tier, CODEC.exact, behind=False, reach=Reach.PROCESS)])
    whole = [
        Block(name, name, A, CODEC.exact, False, CODEC.encode(numbers_of(name), 0, CODEC.exact)) for name in names
    ]
    tier.save([whole[0], replace(whole[1], data=whole[1].data[:-1]), whole[2]])
    assert read(store, names) == 1


def test_a_store_without_a_folder_has_nothing_to_tidy() -> None:
    opened = open_in(None)
    opened.tidy("model")
    names = save(opened.store, A, row(0, 3))
    assert (opened.folder, read(opened.store, names)) == (None, 3)


def assert_opened(gate: threading.Event) -> None:
    assert gate.wait(HANG)


def test_a_store_that_is_not_written_in_time_stays_open(tmp_path: Path) -> None:
    store, gate = open_in(tmp_path).store, threading.Event()
    store.submit(1, lambda: assert_opened(gate))
    names = store.names(ids := row(0, 3))
    computed = ComputedBlocks(names, lambda i: numbers_of(names[i]), 3, len(ids))
    assert store.save(Origin(A, Reach.DISK), computed, never)
    assert not store.close(0)
    assert read(store, names) == 3
    gate.set()
    assert store.close(HANG)
    again = open_in(tmp_path).store
    assert read(again, names) == 3
    assert again.close(HANG)


def test_a_job_that_the_disk_fails_is_a_warning_in_one_sentence(tmp_path: Path) -> None:
    said = list[str]()
    opened = open_store(bytes(32), CODEC, "model", options(tmp_path), said.append)

    def fail() -> None:
        raise OSError("the disk is gone")

    opened.submit(fail)
    names = save(opened.store, A, row(0, 3))
    assert len(said) == 1 and "the disk is gone" in said[0]
    assert read(opened.store, names) == 3
    assert opened.store.close(HANG)


def test_a_document_that_is_closed_keeps_no_blocks_from_being_evicted() -> None:
    store = memory_only(4 * SLOT)
    store.visit(A)
    first = save(store, A, row(0, 4))
    store.leave(B)
    save(store, B, row(1, 4))
    assert store.lookup(first) == 4
    store.leave(A)
    second = save(store, B, row(1, 4))
    assert store.lookup(first) == 0 and store.lookup(second) == 4


def test_a_removed_documents_blocks_are_on_disk_no_more(opened: OpenedStore) -> None:
    removed, kept = save(opened.store, A, row(0, 4)), save(opened.store, B, row(1, 4))
    opened.store.withdraw(Origin(A, Reach.PROCESS))
    assert opened.store.flush(HANG)
    _, disk = opened.store.stats()
    assert disk.blocks == 4
    assert read(opened.store, kept) == 4 and opened.store.lookup(removed) == 0
