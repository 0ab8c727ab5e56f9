"""The snapshot that is committed: weights rounded once, the same place in the data, a thinned log and a card."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from efim_lab.gate.documents import read_documents
from efim_lab.workshop.training import checkpoint, pretraining
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.report import read_log, thinned
from efim_lab.workshop.training.run import measurement, snapshot
from efim_lab.workshop.training.run.clock import StopRequest
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.stream import Batches, ShardSource
from tests.lab.training_run.tiny_run import SETTINGS, STEP, STEPS, a_trainer, train

Command = list[str]
PLAN = replace(SETTINGS, decay=0.0)


@pytest.fixture
def command(gathered: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`python -m efim_lab train run` on 12 steps of the tiny model, measured after each fourth."""
    monkeypatch.setattr(pretraining, "PLANS", {"cpu": SETTINGS, "cuda": SETTINGS})
    monkeypatch.setattr(measurement, "MEASURE_EVERY", 4 * STEP)
    words = ["--corpus", gathered, "--tokenizer", gathered, "--tokens", STEPS * STEP / 1e6, "--lines", "6"]
    return ["run", *map(str, words)]


def test_a_snapshot_is_the_checkpoint_in_half_precision(gathered: Path, tmp_path: Path):
    run, small = tmp_path / "run", tmp_path / "small"
    some = a_trainer(run, PLAN)
    train(some, gathered, run)
    (run / "manifest.json").write_bytes((gathered / "manifest.json").read_bytes())
    snapshot.write_snapshot(run, small)

    weights = load_file(small / "model.safetensors")
    expected = {name: w.to(torch.float16) for name, w in some.model.state_dict().items() if name != "lm_head.weight"}
    torch.testing.assert_close(weights, expected, rtol=0, atol=0)
    names = {"model.safetensors", "run.json", "log.jsonl", "README.md", "loss.png"}
    assert {path.name for path in small.iterdir()} == names

    again = a_trainer(tmp_path / "again", PLAN)
    again.resume(small)
    assert again.progress == replace(some.progress, fresh=[STEPS * STEP])
    rounded = {name: w.to(torch.float16).float() for name, w in some.model.state_dict().items()}
    torch.testing.assert_close(again.model.state_dict(), rounded, rtol=0, atol=0)
    assert again._rate() == SETTINGS.rate / 2 and not any(o.state_dict()["state"] for o in again.state().optimizers)


@pytest.mark.parametrize("steps", [1, 5, 6, 7])
def test_the_next_rows_are_those_that_the_run_would_have_seen(gathered: Path, tmp_path: Path, steps: int):
    source = ShardSource(gathered / "train.jsonl", gathered, characters=10_000)
    batches = Batches(source)
    for _ in range(steps):
        batches.take(4, 64)
    place = checkpoint.RunProgress(shard=batches.shard, row=batches.row, length=batches.length)
    kept = checkpoint.RunProgress(**json.loads(json.dumps(asdict(place))))
    elsewhere = Batches(source, kept.shard, kept.row, kept.length)
    try:
        for length in (64, 64, 64, 128, 128):
            np.testing.assert_array_equal(batches.take(3, length), elsewhere.take(3, length))
    finally:
        batches.close()
        elsewhere.close()


entries = st.lists(st.tuples(st.integers(1, 40), st.floats(0, 10)), min_size=1, max_size=60)


@given(entries, st.integers(1, 100), st.integers(0, 60))
def test_a_thinned_log_keeps_the_mean_loss(steps: list[tuple[int, float]], stretch: int, cut: int):
    log, tokens = list[dict[str, float]](), 0
    for number, (more, loss) in enumerate(steps):
        tokens += more
        log.append({"step": number, "tokens": tokens, "seconds": 2.0 * number, "loss": loss})
    found = thinned(log, stretch)
    assert found[-1] == {**log[-1], "loss": found[-1]["loss"]}
    stretches = [(entry["tokens"] - 1) // stretch for entry in found]
    assert stretches == sorted({(entry["tokens"] - 1) // stretch for entry in log})
    before = [0, *(entry["tokens"] for entry in found[:-1])]
    area = sum(e["loss"] * (e["tokens"] - start) for e, start in zip(found, before, strict=True))
    assert area == pytest.approx(sum(loss * more for more, loss in steps), abs=1e-6)
    # A log that was thinned when the run changed machines, and then went on, gives the same one.
    moved = thinned([*thinned(log[:cut], stretch), *log[cut:]], stretch)
    assert [e["loss"] for e in moved] == pytest.approx([e["loss"] for e in found], abs=1e-6)
    assert [e["tokens"] for e in moved] == [e["tokens"] for e in found]


def test_a_run_continues_from_its_snapshot_and_its_card_says_so(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    run, small, moved = tmp_path / "run", tmp_path / "small", tmp_path / "moved"
    assert main([*command, "--decay", "0", "--out", str(run)]) == 0
    assert main(["snapshot", "--run", str(run), "--out", str(small)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(small)
    card = (small / "README.md").read_text()
    assert "A pretraining run: 0.0 of 0.003072 million tokens" in card and "500 entries" in card
    assert "from 5 sources" not in card and "from 1 sources" in card and str(tmp_path) not in card
    assert "python -m efim_lab train run --resume --from SNAPSHOT --corpus corpus" in card and "of 6" in card

    words = [*command, "--decay", "0", "--tokens", str(2 * STEPS * STEP / 1e6), "--resume", "--from", str(small)]
    assert main([*words, "--out", str(moved)]) == 0
    assert "continues at 0.00M tokens with fresh optimizer state" in capsys.readouterr().out
    progress = checkpoint.RunProgress(**checkpoint.read_state(checkpoint.newest(moved))["progress"])
    assert (progress.tokens, progress.step, progress.fresh) == (2 * STEPS * STEP, 2 * STEPS, [STEPS * STEP])
    log = read_log(moved / "log.jsonl")
    assert [entry["step"] for entry in log] == list(range(STEPS, 2 * STEPS + 1))
    measured = measurement.read_measurements(moved)
    assert [each.tokens for each in measured] == [each * STEP for each in (4, 8, 12, 16, 20, 24)]
    assert {each.rate for each in measured} == {1.0}

    assert main([*words, "--out", str(moved)]) == 0  # the same order again: the run's own checkpoint is newer
    assert "fresh optimizer state" not in capsys.readouterr().out
    assert main(["snapshot", "--run", str(moved), "--out", str(small)]) == 0
    assert "with fresh optimizer state, at (million tokens): 0.0" in (small / "README.md").read_text()


def test_a_branch_decays_off_a_run_that_stays_as_it_is(command: Command, tmp_path: Path):
    trunk, branch = tmp_path / "trunk", tmp_path / "branch"
    assert main([*command, "--decay", "0", "--lines", "0", "--out", str(trunk)]) == 0
    before = {path: path.read_bytes() for path in trunk.rglob("*") if path.is_file()}
    assert main([*command, "--from", str(trunk), "--decay", "1", "--out", str(branch)]) == 0
    assert {path: path.read_bytes() for path in trunk.rglob("*") if path.is_file()} == before
    progress = checkpoint.RunProgress(**checkpoint.read_state(checkpoint.newest(branch))["progress"])
    assert (progress.branched, progress.tokens, progress.fresh) == (STEPS * STEP, 2 * STEPS * STEP, [])
    log = read_log(branch / "log.jsonl")
    assert [entry["step"] for entry in log] == list(range(1, 2 * STEPS + 1))
    assert [entry["seconds"] for entry in log] == sorted(entry["seconds"] for entry in log)
    assert measurement.read_measurements(branch)[-1].rate == 0


def test_measuring_waits_for_its_turn_and_leaves_the_trainer_its_threads(
    gathered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measurement, "MEASURE_EVERY", 4 * STEP)
    threads = torch.get_num_threads()
    some = a_trainer(tmp_path)
    held_out = read_documents(gathered / "heldout.jsonl")
    step = measurement.MeasuringStep(some, bpe.load(gathered), held_out, 3)
    try:
        torch.set_num_threads(2)
        for tokens in (STEP, 4 * STEP, 5 * STEP, 9 * STEP, 12 * STEP):  # the last is the run's end
            some.progress.tokens = tokens
            step(StopRequest())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert [each.tokens for each in measurement.read_measurements(tmp_path)] == [4 * STEP, 9 * STEP]

    some.progress.tokens, some.progress.step = 8 * STEP, 8
    stopped = StopRequest()
    stopped.requested = True
    (tmp_path / measurement.MEASUREMENTS).unlink()
    with pytest.raises(KeyboardInterrupt):
        measurement.MeasuringStep(some, bpe.load(gathered), held_out, 3)(stopped)
    assert checkpoint.newest(tmp_path).name == "checkpoint-0000008"  # from which it is measured on --resume
    assert not measurement.read_measurements(tmp_path)


def test_a_snapshot_needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["snapshot", "--run", str(tmp_path), "--out", str(tmp_path / "small")]) == 1
    assert "no checkpoint in" in capsys.readouterr().err
