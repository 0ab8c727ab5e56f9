"""What `make bench` tells of speed: which side of a row counts, which targets are met, what /infill would send."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from benchmarks.decoding import hf, sides, speed, targets
from benchmarks.decoding.process import OWN, PASSES, Process, Turn, Work, turn
from benchmarks.decoding.shapes import SHAPES, as_llama, checkpoint
from benchmarks.decoding.sides import Named
from benchmarks.decoding.targets import Reach
from benchmarks.environment import other_processes
from benchmarks.keystrokes.first_token import BATCH, Infill
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.weights import read_weights
from model_runtime.ids import Ids
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests import models
from tests.models import Tiny

COLUMNS = ("pass_1", "pass_4", "pass_16", "prefill_512", "prefill_2048")
TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")


class Counting:
    """A side that remembers what it was asked: tokens that it held, and new ones."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self._length = 0

    def truncate(self, length: int) -> None:
        self._length = length

    def forward(self, ids: Ids) -> object:
        self.asked.append((self._length, len(ids)))


class Canned:
    """A process whose sides always take the same time."""

    def __init__(self, **ms: list[list[float]]) -> None:
        self._turn = [(row, passes) for row, sides in ms.items() for passes in sides]
        self.turns = 0

    def turn(self, work: Work, rows: list[str] | None = None) -> Turn:
        self.turns += 1
        return [each for each in self._turn if rows is None or each[0] in rows]


def test_transformers_computes_the_models_that_it_is_compared_on(tmp_path: Path) -> None:
    both = hf.Both(checkpoint(hf.SIZES[0], tmp_path))
    assert {name for name, _ in both.turn(hf.FIRST)} == {hf.OURS, hf.FOREIGN}


@pytest.mark.parametrize("used, measured", [("AVX2 = 1 | AVX512 = 1", True), ("SSE3 = 1", False)])
def test_llama_cpp_is_measured_only_with_the_instructions_of_this_cpu(
    monkeypatch: pytest.MonkeyPatch, used: str, measured: bool
) -> None:
    library = SimpleNamespace(llama_print_system_info=lambda: f"CPU : {used} | ".encode())
    monkeypatch.setattr(sides, "find_spec", lambda name: name)
    monkeypatch.setattr(sides, "import_module", lambda name: library)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    missing = sides.llama_missing()
    assert missing is None if measured else missing and "without AVX512" in missing


def test_of_the_sides_of_one_row_the_faster_counts_and_of_its_times_the_lower_quartile() -> None:
    ours, theirs = Canned(ours=[[3.0, 1.0, 2.0, 9.0]]), Canned(llama=[[4.0, 4.0], [2.5, 8.0], [5.0, 5.0]])
    assert speed.timed([ours, theirs], speed.STEPS[0], seconds=0.0) == {"ours": 1.0, "llama": 2.5}
    assert speed.timed([ours, theirs], speed.STEPS[0], seconds=0.0, rows=["llama"]) == {"llama": 2.5}


def test_processes_take_as_many_turns() -> None:
    ours, theirs = Canned(ours=[[1.0]]), Canned(llama=[[1.0]])
    speed.timed([ours, theirs], speed.STEPS[0], seconds=60.0)
    assert ours.turns == theirs.turns == 1 + speed.MOST  # the first is not timed


def test_a_pass_that_is_not_timed_comes_before_those_that_are() -> None:
    first, second = Counting(), Counting()
    found = turn([Named("a", first), Named("b", second)], Work("pass_4", 512, 4))
    assert [(row, len(ms)) for row, ms in found] == [("a", PASSES), ("b", PASSES)]
    assert first.asked == second.asked == [(512, 4)] * (1 + PASSES)


def test_a_prefill_begins_with_nothing() -> None:
    side = Counting()
    assert len(turn([Named("row", side)], speed.PREFILL)[0][1]) == 1
    assert side.asked == [(0, 512)]


@pytest.mark.skipif(not other_processes.STAT.is_file(), reason="/proc/stat is Linux's")
def test_what_this_process_takes_is_not_taken_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    clock = {"wall": 0.0, "user": 0.0, "own": 0.0}
    monkeypatch.setattr(other_processes, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "times", lambda: (clock["own"], 0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(Path, "read_text", lambda path: f"cpu  {int(clock['user'] * ticks)} 0 0 500 0 0 0 0 0 0\n")
    counted = other_processes.OtherProcesses()
    clock |= {"wall": 10.0, "user": 13.0, "own": 8.0}
    assert counted.share() == 0.25


def test_a_process_that_fails_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="its errors are above"):
        Process(1, tmp_path, OWN, "int8")


@given(value=st.floats(0.1, 10), wanted=st.floats(0.1, 10), least=st.booleans())
def test_a_target_is_met_at_least_or_at_most(value: float, wanted: float, least: bool) -> None:
    report = Reach("speed", value, wanted, least).report()
    assert report["met"] == (value >= wanted if least else value <= wanted)
    assert report["should_be"] == f"{'>=' if least else '<='} {wanted}"


def test_targets_compare_the_same_bytes_a_weight_and_the_best_of_transformers() -> None:
    rows = {
        "ours fp16": dict.fromkeys(COLUMNS, 2.0),
        "ours int8": dict.fromkeys(COLUMNS, 1.0),
        "transformers fp32": dict.fromkeys(COLUMNS, 9.0),
        "transformers bf16": dict.fromkeys(COLUMNS, 8.0),
        "llama.cpp F16": dict.fromkeys(COLUMNS, 6.0),
        "llama.cpp Q8_0": dict.fromkeys(COLUMNS, 0.5),
    }
    at = {"layers": 10, "read_ms": {"fp16": 1.0, "int8": 0.5}, "rows": rows}
    told = targets.judged({"embedded": {"1": at}, "0.5B": {"1": at}})
    found = {(each["size"], each["target"]): (each["is"], each["met"]) for each in told}
    assert found["0.5B", "decode, times transformers'"] == (8.0, True)
    assert found["embedded", "decode, times transformers'"] == (8.0, True)
    assert found["0.5B", "decode, fp16, times F16's"] == (3.0, True)
    assert found["0.5B", "decode, int8, times Q8_0's"] == (0.5, False)
    assert found["0.5B", "decode, fp16, in reads of the weights"] == (2.0, False)
    assert found["embedded", "decode, int8, ms a layer beyond reading the weights"] == (pytest.approx(0.05), True)


def test_without_llama_its_targets_are_left_out() -> None:
    rows = {name: dict.fromkeys(COLUMNS, 1.0) for name in ("ours fp16", "transformers fp32")}
    told = targets.judged({"10M": {"1": {"layers": 1, "read_ms": {"fp16": 1.0}, "rows": rows}}})
    assert told == []


@pytest.mark.parametrize(("size", "millions"), [("10M", (9, 13)), ("30M", (27, 36))])
def test_random_models_have_the_size_that_their_names_tell(
    tmp_path: Path, size: str, millions: tuple[int, int]
) -> None:
    folder = checkpoint(size, tmp_path)
    weights = read_weights(folder, read_config(folder))
    parameters = sum(tensor.size for tensor in weights.values())
    assert millions[0] < parameters / 1e6 < millions[1]


def test_the_first_size_is_the_embedded_model(tmp_path: Path) -> None:
    assert checkpoint(next(iter(SHAPES)), tmp_path) == EMBEDDED


def test_other_programs_compute_the_matrices_of_our_own_family_as_a_llama(tmp_path: Path) -> None:
    own = models.make(tmp_path / "own", Tiny("efim"))
    rival = as_llama(own, tmp_path)
    kept, had = (read_weights(folder, read_config(folder)) for folder in (rival, own))
    assert all(np.array_equal(kept[name], had[name]) for name in kept)
    assert {name.split(".")[-2] for name in had.keys() - kept} == {"token_values", "q_norm", "k_norm", "head_gates"}
    made = AutoModelForCausalLM.from_pretrained(rival).state_dict().keys()
    assert read_config(rival).family == "llama" and set(made) - {"lm_head.weight"} == set(kept)
    assert as_llama(rival, tmp_path) == rival


@given(before=st.integers(0, 3000), after=st.integers(0, 1500))
def test_infill_shows_the_nearest_text_in_the_order_of_fim(before: int, after: int) -> None:
    template = find_template(TOKENIZER)
    ids = Infill(TOKENIZER, template).prompt("x\n" * before + "y\n" * after, 2 * before).ids.tolist()
    shown = TOKENIZER.encode("x\n" * before).tolist()[-3 * BATCH // 4 :]
    rest = TOKENIZER.encode("y\n" * after).tolist()[: BATCH // 4 - 2]
    assert ids == [*template.prefix, *shown, *template.suffix, *rest, *template.middle]
