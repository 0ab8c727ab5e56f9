"""The figures of a replay, checked by hand."""

from typing import Any

import pytest

from efim_lab.gate.replay import report
from efim_lab.gate.replay.report import (
    LEAST_PLAIN_ANSWERS,
    GenerationCosts,
    KeystrokeRow,
    percentile,
    row_of,
    summary,
)

COSTS: dict[str, Any] = {
    "frame": "kept", "head": 50, "tail": 20, "typed": 27, "reused": 97, "recomputed": 3,
    "new_tokens": 9, "known": 2, "passes": 4, "drafted": 5, "accepted": 3,
    "ms": {"plan": 1, "tokenize": 2, "restore": 4, "prefill": 8, "decode": 16, "postprocess": 32, "total": 70},
}  # fmt: skip


def row(
    recomputed: int = 0, ahead: int = 0, *, wasted: int = 0, reanchored: bool = False, **made: Any
) -> KeystrokeRow:
    return KeystrokeRow(100, recomputed, ahead, wasted, reanchored, answer(**made) if made else None)


def answer(**different: Any) -> GenerationCosts:
    plain = GenerationCosts(
        ttft_ms=3.0, decode_ms=8.0, total_ms=12.0, passes=4, new_tokens=5, known=0, drafted=0, accepted=0
    )
    return plain._replace(**different)


def test_the_figures_of_counted_rows():
    rows = [row(1), row(0, wasted=10), row(0, 90, wasted=30), row(9, reanchored=True, wasted=30)]
    assert summary("efim", rows) == {
        "policy": "efim",
        "keystrokes": 4,
        "prompt_tokens_mean": 100.0,
        "recomputed": {"mean": 25.0, "p50": 1, "p90": 90, "p95": 90, "p99": 90, "max": 90},
        "foreground": {"mean": 2.5, "p50": 0, "p90": 9, "p95": 9, "p99": 9, "max": 9},
        "background": {"mean": 22.5, "wasted": 30, "wasted_mean": 7.5},
        "reuse": 0.75,
        "reanchors": 1,
    }


def test_a_row_tells_what_the_server_told():
    made = GenerationCosts(
        ttft_ms=15, decode_ms=16, total_ms=70, passes=4, new_tokens=9, known=2, drafted=5, accepted=3
    )
    assert row_of(COSTS, 40, 6) == KeystrokeRow(100, 3, 40, 6, False, made)
    assert row_of(COSTS | {"frame": "new"}) == KeystrokeRow(100, 3, 0, 0, True, made)
    assert not row_of(COSTS | {"frame": "restored"}).reanchored


def test_times_are_summed_up_where_a_model_ran():
    figures = summary("efim", [row(1, ttft_ms=float(ms), total_ms=ms * 2.0) for ms in range(1, 41)])
    assert figures["ttft_ms"] == {"p50": 20.0, "p95": 38.0}
    assert figures["total_ms"] == {"p50": 40.0, "p95": 76.0}
    assert figures["step_ms"] == 2.0
    assert figures["ttft_steps"] == {"p50": 10.0, "p95": 19.0}


def test_work_ahead_is_summed_up_in_the_worst_minute_of_the_recording():
    spent = [(0.0, 2.0), (30.0, 1.0), (61.0, 4.0), (89.0, 0.5), (90.0, 0.25), (500.0, 5.0)]
    rows = [row(ttft_ms=1.0)._replace(time=time, ahead_seconds=seconds) for time, seconds in spent]
    assert summary("efim", rows[:5])["background"]["seconds_in_worst_minute"] == 5.5  # from 30 to just before 90
    assert summary("efim", rows[3:])["background"]["seconds_in_worst_minute"] == 5.0


def test_passes_and_tokens_of_all_answers_are_summed_up():
    figures = summary("efim", [row(passes=3, new_tokens=10, known=4, accepted=2), row(passes=1, new_tokens=2)])
    assert figures["passes"] == 2.0
    assert figures["tokens_per_pass"] == 1.5
    assert figures["known"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("recomputed", "made", "through"),
    [
        (0, {"passes": 0, "known": 5}, True),
        (1, {"passes": 0, "known": 5}, False),
        (0, {"passes": 1, "known": 5}, False),
        (0, {"passes": 0, "known": 4}, False),
        (0, {"passes": 0, "known": 0, "new_tokens": 0}, False),
        (0, {}, False),
    ],
)
def test_typed_through_is_an_answer_that_costs_nothing(recomputed: int, made: dict[str, Any], through: bool):
    assert row(recomputed, **made).typed_through == through


def test_the_share_typed_through_is_of_all_answers():
    figures = summary("efim", [row(passes=0, known=5), row(passes=1), row(passes=0, known=5), row(passes=2)])
    assert figures["typed_through"] == 0.5


@pytest.mark.parametrize(("plain", "step"), [(LEAST_PLAIN_ANSWERS, 2.0), (LEAST_PLAIN_ANSWERS - 1, 10.0)])
def test_a_pass_is_timed_without_drafts_where_there_are_enough_such_answers(plain: int, step: float):
    drafted = [row(decode_ms=40.0, drafted=7)] * LEAST_PLAIN_ANSWERS
    assert summary("efim", [row(decode_ms=8.0)] * plain + drafted)["step_ms"] == step


def test_without_passes_there_is_no_time_of_a_pass():
    figures = summary("efim", [row(passes=0, decode_ms=0.0)])
    assert figures["ttft_ms"] == {"p50": 3.0, "p95": 3.0}
    assert figures["tokens_per_pass"] == 1
    assert not {"step_ms", "ttft_steps"} & set(figures)


def test_prompts_and_answers_without_tokens_share_nothing():
    figures = summary("efim", [KeystrokeRow(0, 0, 0, 0, False, answer(new_tokens=0, passes=0))])
    assert (figures["reuse"], figures["known"], figures["typed_through"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(0, 1), (1, 1), (50, 2), (51, 3), (75, 3), (76, 4), (100, 4)],
)
def test_percentiles_are_nearest_ranks(percent: float, expected: int):
    assert percentile([4, 1, 3, 2], percent) == expected


def test_the_table_shows_the_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    many = row(1200, 3000, reanchored=True, ttft_ms=2148.25, total_ms=12345.0)
    through = row(2, ttft_ms=7.5, total_ms=8.5), row(wasted=1500, passes=0, known=5, ttft_ms=7.5)
    report.show(summary("efim-paper", [many, *through]))
    shown = capsys.readouterr().out
    assert "efim-paper: 3 keystrokes, 1 re-anchors" in shown
    assert cells("recomputed tokens", shown) == ["1,401", "2", *["4,200"] * 4]
    assert cells("in the foreground", shown) == ["400.7", "2", *["1,200"] * 4]
    assert cells("in the background", shown) == ["1,000", *[""] * 5]
    assert cells("discarded", shown) == ["500.0", *[""] * 5]
    assert cells("to the first new token", shown) == ["", "7.50", "", "2,148", "", ""]
    assert cells("in decode passes", shown) == ["", "3.75", "", "1,074", "", ""]
    assert cells("already computed", shown)[0] == "33%"
    assert cells("typed through", shown)[0] == "33%"
    assert {len(line) for line in shown.splitlines() if "│" in line} == {max(map(len, shown.splitlines()))}
    assert max(map(len, shown.splitlines())) <= 80


def test_the_table_of_counted_rows_tells_no_times(capsys: pytest.CaptureFixture[str]):
    report.show(summary("efim", [row(1), row(3)]))
    shown = capsys.readouterr().out
    assert "98.0% of the prompts' tokens reused" in shown
    assert " ms " not in shown


def cells(label: str, shown: str) -> list[str]:
    line = next(line for line in shown.splitlines() if label in line)
    return [part.strip() for part in line.split("│")[2:-1]]
