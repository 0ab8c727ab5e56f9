"""The learning rate and the rows' lengths of a run: warm-up, stable, decay; the same however often it is resumed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.checkpoint import RunProgress
from efim_lab.workshop.training.loop import TrainingLoop
from efim_lab.workshop.training.run.clock import ComputingClock
from efim_lab.workshop.training.run.schedule import Schedule, TimeBudget, TokenBudget
from tests.lab.training_run.tiny_run import SETTINGS, STEP, STEPS, Interrupted, a_trainer, train

MILLION = 1_000_000
WSD = Schedule(rate=1.0, warmup_tokens=10 * MILLION, decay=0.2, tokens_per_step=1000)
HUNDRED = TokenBudget(100 * MILLION)


def rate(tokens: int, schedule: Schedule = WSD, budget: TokenBudget = HUNDRED, **at: object) -> float:
    progress = RunProgress(tokens=tokens, **at)  # pyright: ignore[reportArgumentType]
    return schedule.rate_at(progress, budget.share(progress))


def test_the_rate_rises_stays_and_falls():
    millions = (0, 5, 10, 50, 80, 90, 95, 100, 110)
    found = [rate(each * MILLION) for each in millions]
    assert found == pytest.approx([0, 0.5, 1, 1, 1, 0.5, 0.25, 0, 0], abs=2e-4)


@given(st.integers(1, 100_000), st.integers(1, 5_000))
def test_a_step_has_whole_rows_and_no_more_than_it_needs_for_its_tokens(tokens: int, length: int):
    rows = replace(WSD, tokens_per_step=tokens).rows_in_step(length)
    assert (rows - 1) * length < tokens <= rows * length


@given(st.integers(0, 100 * MILLION), st.sampled_from([0.1, 0.2, 0.5, 1.0]))
def test_the_rate_is_the_smaller_of_a_rise_and_a_fall(tokens: int, decay: float):
    found = rate(tokens, replace(WSD, decay=decay))
    assert found == pytest.approx(min(1, (tokens + 1000) / 1e7) * min(1, (100e6 - tokens) / (decay * 100e6)))


@given(st.integers(0, 80 * MILLION), st.integers(100 * MILLION, 1000 * MILLION))
def test_more_tokens_change_no_rate_before_the_decay(tokens: int, raised: int):
    assert rate(tokens, budget=TokenBudget(raised)) == pytest.approx(rate(tokens))


def test_without_decay_the_rate_never_falls():
    assert rate(100 * MILLION, replace(WSD, decay=0.0)) == 1


def test_fresh_optimizers_warm_up_again():
    assert rate(40 * MILLION, fresh=[20 * MILLION]) == 1
    assert rate(40 * MILLION, fresh=[20 * MILLION, 35 * MILLION]) == pytest.approx(0.5, abs=1e-3)


def test_a_branch_decays_over_its_own_tokens():
    falling, ten = replace(WSD, decay=1.0), TokenBudget(10 * MILLION)
    found = [rate(each * MILLION, falling, ten, branched=60 * MILLION) for each in (60, 65, 70)]
    assert found == pytest.approx([1, 0.5, 0])


def test_a_budget_in_time_counts_seconds():
    assert [TimeBudget(60).share(RunProgress(elapsed=each)) for each in (0, 30, 60, 90)] == [0, 0.5, 1, 1]


def test_rows_never_become_shorter():
    lengths = [
        WSD.length_at(RunProgress(length=before), share) for before, share in ((0, 0), (512, 0.6), (2048, 0.3))
    ]
    assert lengths == [512, 2048, 2048]


def test_a_resumed_run_has_the_same_rates(gathered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    used: dict[str, list[tuple[int, float]]] = {"whole": [], "broken": []}
    rate_of = TrainingLoop._rate

    def noted(self: TrainingLoop) -> float:
        used[self.folder.name].append((self.progress.tokens, rate_of(self)))
        return rate_of(self)

    monkeypatch.setattr(TrainingLoop, "_rate", noted)
    settings = replace(SETTINGS, decay=0.5)
    train(a_trainer(tmp_path / "whole", settings), gathered, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(a_trainer(tmp_path / "broken", settings), gathered, tmp_path / "broken", Interrupted)
    again = a_trainer(tmp_path / "broken", settings)
    again.resume()
    train(again, gathered, tmp_path / "broken")
    assert len(used["broken"]) > len(used["whole"])  # the steps after the last checkpoint were repeated
    assert dict(used["broken"]) == dict(used["whole"])


def test_tokens_may_be_raised_until_the_decay_begins(gathered: Path, tmp_path: Path):
    half = replace(SETTINGS, decay=0.5)
    some = a_trainer(tmp_path, half)
    some.progress.tokens = STEPS * STEP // 2
    some.save()
    raised = replace(half, tokens=2 * STEPS * STEP)
    again = a_trainer(tmp_path, raised)
    again.resume()
    assert (again.share(), again._rate()) == (0.25, SETTINGS.rate)

    some.progress.tokens, some.progress.step = some.progress.tokens + STEP, 1
    some.save()
    with pytest.raises(
        WorkError, match=re.escape("began at 0.001536 million tokens: resume it with --tokens 0.003072")
    ):
        a_trainer(tmp_path, raised).resume()
    a_trainer(tmp_path, half).resume()


def test_the_clock_leaves_out_time_in_which_the_process_does_not_compute(monkeypatch: pytest.MonkeyPatch):
    wall, processor = iter([0.0, 10.0, 700.0, 710.0]), iter([0.0, 20.0, 25.0, 29.0])
    monkeypatch.setattr("efim_lab.workshop.training.run.clock.time.monotonic", lambda: next(wall))
    monkeypatch.setattr("efim_lab.workshop.training.run.clock.time.process_time", lambda: next(processor))
    clock = ComputingClock()
    # Two threads for ten seconds; stopped for the most part of 690; slowed by others.
    assert [clock() for _ in range(3)] == [10, 15, 19]
