"""`python -m efim_lab replay`: mistakes are one line and status 2, and a replay and its counts agree."""

import json
import os
from pathlib import Path

import pytest

from efim_lab.gate.commands import cli
from tests.processes.command_line import run, status

PROGRAM = "efim_lab.gate"
MODEL_RAN = {
    "ttft_ms", "ttft_steps", "total_ms", "step_ms", "passes", "tokens_per_pass", "known", "typed_through",
}  # fmt: skip


def trace(folder: Path, *patches: tuple[int, int, str], start: str = "", minutes: int = 0) -> str:
    path = folder / "python.json"
    times = [f"2020-09-10T04:{number * minutes:02}:00.000Z" for number in range(len(patches))]
    txns = [{"time": time, "patches": [patch]} for time, patch in zip(times, patches, strict=True)]
    path.write_text(json.dumps({"startContent": start, "txns": txns}), encoding="utf-8")
    return str(path)


def typed(text: str, at: int) -> list[tuple[int, int, str]]:
    return [(at + number, 0, letter) for number, letter in enumerate(text)]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["replay", "pipe"], "pipe is not a regular file: check the path"),
        (["replay", "none.json"], "none.json is not a file: check the path"),
        (["replay", "bad.json"], "bad.json cannot be replayed: not JSON"),
        (["replay", "python.json", "--policy", "best"], "invalid choice: 'best'"),
        (["replay", "python.json", "--limit", "-1"], "--limit: expected a whole number of at least 0, got '-1'"),
        (["replay", "python.json", "--limit", "0", "--count-only"], "lower --skip or raise --limit"),
        (["replay", "python.json", "--head", "0"], "--head: expected a whole number of at least 1, got '0'"),
    ],
)
def test_a_mistake_is_one_line(
    argv: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    trace(tmp_path, (0, 0, "x"))
    (tmp_path / "bad.json").write_text("{")
    os.mkfifo("pipe")
    assert status(cli.main, argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m efim_lab")
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "name", ["python.json", "rust.json"]
)  # the model is asked whether it knows the language or not
def test_counting_and_replaying_see_the_same_keystrokes(tmp_path: Path, name: str):
    start = "def area(width, height):\n    return width * height\n\n\n"
    path = str(Path(trace(tmp_path, *typed("def edge(wid", len(start)), start=start)).rename(tmp_path / name))
    counted, replayed = (
        json.loads(run(PROGRAM, "replay", path, "--skip", "2", "--limit", "8", "--json", *more).stdout)
        for more in (["--count-only"], [])
    )
    for figures in (counted, replayed):
        assert (figures["policy"], figures["keystrokes"]) == ("efim", 8)
        assert set(figures["recomputed"]) == {"mean", "p50", "p90", "p95", "p99", "max"}
    assert replayed["prompt_tokens_mean"] == counted["prompt_tokens_mean"]
    # What the server has computed ahead when the first request comes depends on when that is.
    assert 0 < replayed["foreground"]["max"] <= counted["foreground"]["max"]
    assert replayed["foreground"]["max"] + 8 * replayed["background"]["mean"] >= counted["foreground"]["max"] > 10
    assert set(replayed) - set(counted) == MODEL_RAN


def test_a_replay_that_the_server_does_not_complete_has_no_figures(tmp_path: Path):
    path = trace(tmp_path, *typed("x", 0), start="# too large to be completed\n" * 200_000)
    done = run(PROGRAM, "replay", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "python -m efim_lab: a keystroke was not completed: file too large\n"


def test_a_policy_that_reuses_nothing_counts_every_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = trace(tmp_path, *typed("x = 1", 0))
    assert cli.main(["replay", path, "--policy", "none", "--count-only", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["recomputed"]["mean"] == figures["prompt_tokens_mean"]
    assert figures["reuse"] == 0


def test_where_the_cursor_rests_the_server_works_ahead(tmp_path: Path):
    start = "total = first + second\n" * 12
    ends = [at for at, letter in enumerate(start) if letter == "\n"]
    jumps = [(at + number, 0, "s") for number, at in enumerate(ends[::2])]
    hasty, patient = (
        json.loads(run(PROGRAM, "replay", trace(tmp_path, *jumps, start=start, minutes=minutes), "--json").stdout)
        for minutes in (0, 1)
    )
    assert patient["background"]["mean"] > 10
    assert patient["foreground"]["p50"] <= 2 < hasty["foreground"]["p50"]


@pytest.mark.parametrize("policy", ["none", "psm", "spm", "efim-paper"])
def test_other_policies_run_through_the_same_model(policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    start = "def area(width, height):\n    return width * height\n\n\n"
    path = trace(tmp_path, *typed("def edge(wid", len(start)), start=start)
    argv = ["replay", path, "--policy", policy, "--json", "--limit", "8"]
    assert (cli.main(argv), cli.main([*argv, "--count-only"])) == (0, 0)
    replayed, counted = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert set(replayed) - set(counted) == MODEL_RAN
    for name in ("policy", "keystrokes", "prompt_tokens_mean", "reanchors"):
        assert replayed[name] == counted[name]
    assert replayed["recomputed"]["max"] == counted["recomputed"]["max"]
    assert 0 < replayed["recomputed"]["mean"] <= counted["recomputed"]["mean"]
    assert replayed["known"] == 0 < replayed["ttft_ms"]["p50"] <= replayed["total_ms"]["p50"]


@pytest.mark.parametrize("how", [["--count-only"], ["--policy", "psm"], []])
def test_a_missing_model_is_a_clear_error(how: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = trace(tmp_path, *typed("x = 1", 0))
    assert cli.main(["replay", path, *how, "--model", "no/such/model"]) == 1
    assert "no/such/model" in capsys.readouterr().err
