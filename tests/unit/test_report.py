"""The figures of a replay, checked by hand."""

import pytest

from editor_clients.headless import report
from editor_clients.headless.report import Row, percentile, summary


def row(recomputed: int, *, background: bool = False, reanchored: bool = False, ms: float | None = None) -> Row:
    return Row(100, recomputed, background, reanchored, ms, None if ms is None else ms * 2)


def test_the_figures_of_counted_rows():
    rows = [row(1), row(0), row(90, background=True, reanchored=True), row(9, reanchored=True)]
    assert summary("efim", rows) == {
        "policy": "efim",
        "keystrokes": 4,
        "prompt_tokens_mean": 100.0,
        "recomputed": {"mean": 25.0, "p50": 1, "p90": 90, "p95": 90, "p99": 90, "max": 90},
        "foreground": {"mean": 2.5, "p50": 0, "p90": 9, "p95": 9, "p99": 9, "max": 9},
        "reuse": 0.75,
        "reanchors": 2,
    }


def test_times_are_summed_up_where_a_model_ran():
    figures = summary("efim", [row(1, ms=float(ms)) for ms in range(1, 41)])
    assert figures["ttft_ms"] == {"p50": 20.0, "p95": 38.0}
    assert figures["total_ms"] == {"p50": 40.0, "p95": 76.0}


def test_prompts_without_tokens_reuse_nothing():
    assert summary("efim", [Row(0, 0, False, False, 0.0, 0.0)])["reuse"] == 0


@pytest.mark.parametrize(
    ("percent", "expected"),
    [(0, 1), (1, 1), (50, 2), (51, 3), (75, 3), (76, 4), (100, 4)],
)
def test_percentiles_are_nearest_ranks(percent: float, expected: int):
    assert percentile([4, 1, 3, 2], percent) == expected


def test_the_table_shows_the_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    report.show(summary("efim", [row(1, ms=7.5), row(3, reanchored=True, ms=8.5)]))
    shown = capsys.readouterr().out
    assert "efim: 2 keystrokes, 1 re-anchors" in shown
    assert "98.0% of the prompts' tokens reused" in shown
    assert [part.strip() for part in line_with("to the first new token", shown)] == ["", "7.5", "", "8.5", "", ""]
    assert max(map(len, shown.splitlines())) <= 80


def line_with(label: str, shown: str) -> list[str]:
    return next(line for line in shown.splitlines() if label in line).split("│")[2:-1]
