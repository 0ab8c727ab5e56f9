"""How long documents live out of sight, and that no file can break it."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kv_store.idle_times import DEFAULT, ENOUGH, LEAST, MOST, REMEMBERED, Away, read, write

SECONDS = st.floats(0, 1e6)
TIMES = st.lists(SECONDS, max_size=2 * REMEMBERED)
NO_TIMES = [math.nan, math.inf, -math.inf, -1.0, -1e-9, 10**400]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.lists(SECONDS, max_size=ENOUGH - 1))
def test_little_is_known_of_few_returns(times: list[float]) -> None:
    assert Away(times).time_to_live == DEFAULT == 600
    assert Away([100.0] * 19).time_to_live == 600


@given(st.lists(st.floats(0, 1.2 * MOST), min_size=ENOUGH, max_size=REMEMBERED, unique=True))
@example([100.0 * i for i in range(1, 22)])
def test_nine_of_ten_returns_come_in_time_and_no_more_than_are_needed(times: list[float]) -> None:
    within = Away(times).time_to_live
    if within < MOST:
        assert sum(each <= within for each in times) >= 0.9 * len(times)
    if within > LEAST:
        assert sum(each < within for each in times) < 0.9 * len(times)


def test_the_time_is_one_that_someone_was_away() -> None:
    assert Away([100.0 * i for i in range(1, 21)]).time_to_live == 1800


def test_two_hundred_returns_are_remembered() -> None:
    assert Away(map(float, range(500))).times == tuple(map(float, range(300, 500)))


def test_it_is_a_minute_at_least_and_eight_hours_at_most() -> None:
    assert Away([1.0] * 20).time_to_live == 60
    assert Away([1e6] * 20).time_to_live == 8 * 3600


@given(TIMES, TIMES)
def test_only_the_last_returns_count_whenever_they_were_noted(before: list[float], since: list[float]) -> None:
    away = Away(before)
    for seconds in since:
        away.note(seconds)
    assert list(away.times) == (before + since)[-REMEMBERED:]
    assert away.time_to_live == Away((before + since)[-200:]).time_to_live


@given(TIMES, st.sampled_from(NO_TIMES), st.integers(0))
def test_what_is_no_time_is_passed_over(times: list[float], other: float, place: int) -> None:
    place %= len(times) + 1
    assert Away([*times[:place], other, *times[place:]]).times == Away(times).times


@given(TIMES)
def test_what_is_written_is_read_to_the_bit(times: list[float]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "away.json"
        write(path, Away([5.0]))
        write(path, Away(times))
        assert read(path).times == Away(times).times
        assert [each.name for each in Path(folder).iterdir()] == ["away.json"]


@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=50))
@example(b"5")
@example(b"[" * 100_000)
@example(b"[1e999, 1" + b"0" * 400 + b"]")
@example(b"[" + b"9" * 5000 + b"]")
def test_whatever_is_in_the_file_all_times_are_times(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "away.json"
        path.write_bytes(content)
        away = read(path)
        assert all(0 <= seconds < math.inf for seconds in away.times)
        assert LEAST <= away.time_to_live <= MOST
        write(path, away)
        assert read(path).times == away.times


def test_good_times_of_a_file_survive_bad_ones(tmp_path: Path) -> None:
    path = tmp_path / "away.json"
    path.write_text('[1.5, "2", null, NaN, -3, [4], 5]')
    assert read(path).times == (1.5, 5)


def test_of_a_missing_file_nothing_is_known(tmp_path: Path) -> None:
    assert read(tmp_path / "away.json").times == ()
    assert read(tmp_path).times == ()


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    write(tmp_path / "away.json", Away([1.0]))
    assert (tmp_path / "away.json").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_replaced_is_told_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "away.json"
    write(path, Away([1.0]))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError):
        write(path, Away([2.0]))
    assert read(path).times == (1.0,)
    assert [each.name for each in tmp_path.iterdir()] == ["away.json"]


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write(tmp_path / "nowhere" / "away.json", Away())
