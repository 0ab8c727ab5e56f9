"""Reading traces: what is refused and why, and which events ask for a completion."""

import gzip
import json
from pathlib import Path

import pytest

from efim_lab.gate.replay import trace
from efim_lab.gate.replay.trace import Event, Patch, Trace, TraceError

TIME = "2020-09-10T04:23:15.000Z"


def txn(*patches: object) -> dict[str, object]:
    return {"time": TIME, "patches": list(patches)}


def content(*txns: object, start: object = "ab\n") -> str:
    return json.dumps({"startContent": start, "endContent": "", "txns": list(txns)})


def write(folder: Path, data: str | bytes) -> Path:
    path = folder / "trace.json"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_trace_is_its_start_and_its_events(tmp_path: Path):
    path = write(tmp_path, content(txn([1, 0, "é"], [0, 1, ""])))
    expected = Trace("ab\n", [Event(1599711795.0, [Patch(1, 0, "é"), Patch(0, 1, "")])])
    assert trace.read(path) == expected


def test_a_gzipped_trace_is_recognized_by_its_content(tmp_path: Path):
    path = write(tmp_path, gzip.compress(content(txn([0, 0, "x"])).encode()))
    assert trace.read(path).events[0].patches == [Patch(0, 0, "x")]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100_000, "not JSON"),
        pytest.param(gzip.compress(b"{}")[:-12], "damaged gzip", id="cut off"),
        (b"\x1f\x8bnonsense", "damaged gzip"),
        ("[]", "the top level is not an object"),
        ('{"txns": []}', "startContent is missing"),
        ('{"startContent": ""}', "txns is missing"),
        (content("x"), "transaction 0 is not an object"),
        (content(txn(), {"time": TIME}), "transaction 1: patches is missing"),
        (content({"patches": []}), "transaction 0: time None is not an ISO-8601 time"),
        (content({"time": "noon", "patches": []}), "transaction 0: time 'noon' is not an ISO-8601 time"),
        (content(txn([0, 0])), "transaction 0: [0, 0] is not [position, deleted, inserted]"),
        (content(txn([0, "1", "x"])), "is not [position, deleted, inserted]"),
        (content(txn([-1, 0, "x"])), "is not [position, deleted, inserted]"),
        (content(txn([0, -1, "x"])), "is not [position, deleted, inserted]"),
        (content(txn([0, 3, ""]), txn([0, 1, ""])), "transaction 1: the edit at 0 ends beyond the text (0 long)"),
        (content(txn([4, 0, "x"])), "transaction 0: the edit at 4 ends beyond the text (3 long)"),
    ],
)
def test_a_bad_trace_is_refused_with_its_reason(tmp_path: Path, data: str | bytes, complaint: str):
    with pytest.raises(TraceError) as error:
        trace.read(write(tmp_path, data))
    assert complaint in str(error.value)


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(TraceError, match="No such file"):
        trace.read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("patches", "cursor"),
    [
        ([Patch(5, 0, "x")], 6),
        ([Patch(5, 0, "\n")], 6),
        ([Patch(5, 1, "")], 5),
        ([Patch(5, 30, "")], 5),
        ([Patch(5, 0, "xy")], None),
        ([Patch(5, 1, "x")], None),
        ([Patch(5, 0, "")], None),
        ([Patch(5, 0, "x"), Patch(9, 0, "x")], None),
        ([], None),
    ],
)
def test_typing_a_character_and_deleting_ask_for_a_completion(patches: list[Patch], cursor: int | None):
    assert trace.requests_after(Event(0.0, patches)) == cursor


SESSION = Trace(
    "ab",
    [
        Event(0.0, [Patch(2, 0, "c")]),
        Event(1.0, [Patch(3, 0, "def")]),
        Event(2.0, [Patch(6, 0, "g")]),
        Event(3.0, [Patch(0, 1, "")]),
    ],
)


@pytest.mark.parametrize(
    ("skip", "limit", "expected"),
    [
        (0, None, [("abc", 3), ("abcdefg", 7), ("bcdefg", 0)]),
        (1, None, [("abcdefg", 7), ("bcdefg", 0)]),
        (0, 2, [("abc", 3), ("abcdefg", 7)]),
        (2, 1, [("abcdefg", 7)]),
        (0, 9, [("abc", 3), ("abcdefg", 7), ("bcdefg", 0)]),
        (0, 0, []),
        (9, None, []),
    ],
)
def test_a_part_skips_events_and_limits_requests(skip: int, limit: int | None, expected: list[tuple[str, int]]):
    assert [key[:2] for key in trace.keystrokes(trace.part(SESSION, skip, limit))] == expected


def test_skipped_events_are_in_the_text_a_part_starts_from():
    assert trace.part(SESSION, 2, None).start == "abcdef"


@pytest.mark.parametrize(
    ("patches", "seconds", "place"),
    [
        ([Patch(5, 0, "x")], 1.0, 5),
        ([Patch(5, 1, "")], 1.0, 6),
        ([Patch(5, 30, "")], 7.0, 35),
        ([Patch(5, 0, "x")], 0.0, None),
        ([Patch(5, 0, "x")], -1.0, None),
        ([Patch(5, 0, "xy")], 9.0, None),
        ([], 9.0, None),
    ],
)
def test_the_cursor_rested_where_the_next_edit_comes_a_second_later(
    patches: list[Patch], seconds: float, place: int | None
):
    last = Event(100.0, [Patch(0, 0, "x")])
    assert trace.rested_at(Event(100.0 + seconds, patches), last) == place


def test_before_the_first_event_nothing_rests():
    assert trace.rested_at(Event(100.0, [Patch(5, 0, "x")]), None) is None


def test_a_keystroke_tells_the_text_and_the_place_of_the_rest_before_it():
    times = [0.0, 0.5, 2.0, 2.5]
    session = Trace("ab", [event._replace(time=time) for event, time in zip(SESSION.events, times, strict=True)])
    assert [key.rested for key in trace.keystrokes(session)] == [None, ("abcdef", 6), None]
