"""Targets of speed, compared with measured speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.decoding.shapes import LARGEST, SMALLEST
from benchmarks.decoding.sides import LLAMA, OURS, TRANSFORMERS
from benchmarks.table import show

BESIDE = {"fp16": "F16", "int8": "Q8_0"}  # llama.cpp's format of as many bytes a weight
DECODE = "pass_1"
AS_FAST = {DECODE: 1.0, "pass_4": 1.4, "pass_16": 1.4, "prefill_512": 2.0}  # times llama.cpp
NAMES = {DECODE: "decode", "pass_4": "pass of 4", "pass_16": "pass of 16", "prefill_512": "prefill of 512"}


Rows = Mapping[str, dict[str, float]]  # milliseconds by row and column


class Reach(NamedTuple):
    """A figure, and the least (`least`) or the most that it should be."""

    name: str
    value: float
    wanted: float
    least: bool = True

    def report(self) -> dict[str, Any]:
        """The same for tables and programs."""
        met = self.value >= self.wanted if self.least else self.value <= self.wanted
        bound = f"{'>=' if self.least else '<='} {self.wanted}"
        return {"target": self.name, "is": self.value, "should_be": bound, "met": met}


def judged(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Every target, by size and threads; targets against llama.cpp only where it was measured."""
    return [
        {"size": size, "threads": threads, **each.report()}
        for size, by_threads in found.items()
        for threads, at in by_threads.items()
        for each in _reaches(size, at)
    ]


def show_all(reports: Sequence[Mapping[str, Any]]) -> None:
    """Print targets as a table."""
    columns = [name for name in reports[0] if name != "met"]
    lines = [[*(each[name] for name in columns), "met" if each["met"] else "NOT MET"] for each in reports]
    show("targets", [*(name.replace("_", " ") for name in columns), ""], lines)


def _reaches(size: str, at: dict[str, Any]) -> Iterator[Reach]:
    rows = at["rows"]
    if size == SMALLEST:
        yield Reach("decode, times transformers'", _times_best(rows, DECODE), 2.5)
        yield from _overhead(at)
        return
    yield from _beside_llama(rows)
    if size == LARGEST:
        yield Reach("decode, times transformers'", _times_best(rows, DECODE), 3.0)
        yield Reach("prefill of 2,048, times transformers'", _times_best(rows, "prefill_2048"), 1.5)
        yield from _of_its_own(at)


def _times_best(rows: Rows, column: str) -> float:
    """How many times as fast as the best of transformers the best of ours is."""
    ours, theirs = (
        min(row[column] for name, row in rows.items() if name.startswith(owner) and column in row)
        for owner in (OURS, TRANSFORMERS)
    )
    return theirs / ours


def _beside_llama(rows: Rows) -> Iterator[Reach]:
    for form, theirs in BESIDE.items():
        ours, other = rows.get(f"{OURS} {form}"), rows.get(f"{LLAMA} {theirs}")
        if ours and other:
            for column, wanted in AS_FAST.items():
                yield Reach(f"{NAMES[column]}, {form}, times {theirs}'s", other[column] / ours[column], wanted)


def _of_its_own(at: dict[str, Any]) -> Iterator[Reach]:
    for form, ours in _of_bytes(at):
        yield Reach(f"decode, {form}, in reads of the weights", ours[DECODE] / at["read_ms"][form], 1.4, least=False)
        yield Reach(f"pass of 4, {form}, in passes of 1", ours["pass_4"] / ours[DECODE], 1.6, least=False)


def _overhead(at: dict[str, Any]) -> Iterator[Reach]:
    for form, ours in _of_bytes(at):
        ms = (ours[DECODE] - at["read_ms"][form]) / at["layers"]
        yield Reach(f"decode, {form}, ms a layer beyond reading the weights", ms, 0.1, least=False)


def _of_bytes(at: dict[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """Our rows whose formats' reading time is known."""
    for form in at["read_ms"]:
        if row := at["rows"].get(f"{OURS} {form}"):
            yield form, row
