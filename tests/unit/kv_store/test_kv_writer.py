"""The writer's thread: in order, in batches, bounded, and it survives errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from kv_store import writer as writers
from kv_store.block import Block
from kv_store.tier import TierStats
from kv_store.writer import Writer
from tests.waiting import HANG

RAW = 0  # a form of blocks


def block(name: str, size: int = 4) -> Block:
    return Block(name.encode(), b"", 1, RAW, False, np.zeros(size, np.uint8))


class Recorder:
    """A tier whose writes wait at a gate, and fail with `error` if it is set."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.began, self.gate = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def save(self, blocks: Iterable[Block]) -> None:
        batch = [each.name.decode() for each in blocks]
        self.began.set()
        assert self.gate.wait(HANG)
        if self.error is not None:
            raise self.error
        self.batches.append(batch)

    def stats(self) -> TierStats:
        return TierStats("recorder")


@pytest.fixture
def tier() -> Recorder:
    return Recorder()


@pytest.fixture
def writer(tier: Recorder) -> Iterator[Writer]:
    writer = Writer(tier)  # type: ignore[arg-type]
    yield writer
    tier.gate.set()
    assert writer.close(HANG)


def test_blocks_are_written_in_order_and_in_batches(tier: Recorder, writer: Writer) -> None:
    assert writer.save(block("a"))
    assert tier.began.wait(HANG)
    assert all(writer.save(block(name)) for name in "bcb")
    assert all(writer.is_pending(name.encode()) for name in "abc") and not writer.is_pending(b"d")
    tier.gate.set()
    assert writer.flush(HANG)
    assert tier.batches == [["a"], ["b", "c"]]
    assert not writer.is_pending(b"a")


def test_jobs_run_after_blocks_queued_before(tier: Recorder, writer: Writer) -> None:
    seen: list[object] = []
    writer.save(block("a"))
    writer.submit(lambda: seen.extend(tier.batches))
    tier.gate.set()
    assert writer.flush(HANG)
    assert ["a"] in seen


def test_waiting_ends_after_the_given_seconds(tier: Recorder, writer: Writer) -> None:
    assert writer.flush(0)
    writer.save(block("a"))
    assert tier.began.wait(HANG)
    assert not writer.flush(0) and not writer.close(0)
    tier.gate.set()
    assert writer.close(HANG)
    assert tier.batches == [["a"]]


def test_the_queue_for_a_slow_disk_is_bounded(
    tier: Recorder, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "PENDING_BYTES", 10)
    assert writer.save(block("a", 6)) and not writer.save(block("b", 6)) and writer.save(block("c", 4))
    tier.gate.set()
    assert writer.flush(HANG)
    assert writer.save(block("b", 6)) and writer.flush(HANG)
    assert [name for batch in tier.batches for name in batch] == ["a", "c", "b"]


def test_an_error_costs_the_batch_and_not_the_thread(
    tier: Recorder, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    tier.error = ValueError("a mistake")
    tier.gate.set()
    with caplog.at_level(logging.ERROR):
        writer.save(block("a"))
        assert writer.flush(HANG)
    tier.error = None
    writer.save(block("b"))
    assert writer.flush(HANG)
    assert tier.batches[-1] == ["b"] and "recorder tier failed" in caplog.text


def test_closing_writes_the_queue(tier: Recorder, writer: Writer) -> None:
    writer.save(block("a"))
    tier.gate.set()
    assert writer.close(HANG)
    assert sum(tier.batches, []) == ["a"]


def test_what_is_discarded_is_not_written_unless_it_was_begun(tier: Recorder, writer: Writer) -> None:
    ran: list[str] = []
    writer.save(block("a"))
    assert tier.began.wait(HANG)
    writer.save(block("b"))
    writer.submit(lambda: ran.append("job"))
    writer.discard()
    assert not writer.is_pending(b"a") and not writer.is_pending(b"b")
    tier.gate.set()
    assert writer.flush(HANG)
    assert writer.save(block("c")) and writer.flush(HANG)
    assert tier.batches == [["a"], ["c"]] and ran == []


def test_discarding_makes_room_in_the_queue(tier: Recorder, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "PENDING_BYTES", 10)
    writer.save(block("a", 10))
    assert tier.began.wait(HANG)
    writer.discard()
    tier.gate.set()
    assert writer.flush(HANG)
    assert writer.save(block("b", 10)) and not writer.save(block("c", 1))
    assert writer.flush(HANG) and writer.save(block("c", 10))
