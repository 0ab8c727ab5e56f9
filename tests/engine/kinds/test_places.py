"""Experts that are on disk are computed as if all were in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.checkpoint.tensor_shapes import count_experts
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.decoder.quantization import Format
from model_runtime.errors import ModelError
from model_runtime.kv.arena import DenseArena
from model_runtime.loading import memory_fit as fits
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import LoadedModel, load
from model_runtime.loading.memory_fit import kv_bytes, memory_need, model_size
from model_runtime.shelves.experts_on_disk.experts import Schedule, least_slots
from model_runtime.shelves.experts_on_disk.file import PAGE
from model_runtime.shelves.experts_on_disk.placement import ExpertPlacement
from tests.compiled import require_compiled
from tests.models import VOCABULARY, Tiny, make

CONTEXT = 200
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)
FAMILIES = ("qwen3_moe", "gpt_oss", "deepseek_v3")  # with normal, biased and corrected scores


class Both:
    """A model with all of its experts in memory, and one with as few as can be."""

    def __init__(self, folder: Path, form: Format) -> None:
        self.config = read_config(folder)
        self.weights, self.file = read_weights(folder, self.config), folder / "experts.safetensors"
        self.form: Format = form
        self.whole = NativeDecoder(self.config, self.weights, form, 2)
        self.slots = least_slots(experts_of(self.config))
        self.placed = self.open()

    def open(self, key: str = "weights") -> NativeDecoder:
        placement = ExpertPlacement(self.file, key, self.slots)
        return NativeDecoder(self.config, self.weights, self.form, 2, keeper=placement)

    def arena(self) -> DenseArena:
        return DenseArena(self.config, CONTEXT)


def experts_of(config: ModelConfig) -> Experts:
    return next(layer.mlp for layer in config.layers if isinstance(layer.mlp, Experts))


@pytest.fixture(scope="module", params=product(FAMILIES, ("fp16", "int8")), ids=" ".join)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    require_compiled()
    family, form = request.param
    made = Both(make(tmp_path_factory.mktemp("model"), Tiny(family, layers=5)), form)
    count = sum(isinstance(layer.mlp, Experts) for layer in made.config.layers) * experts_of(made.config).count
    assert made.slots < count, "all are in memory, and nothing is tested"
    return made


passes = st.lists(st.tuples(st.booleans(), st.integers(1, 70), st.integers(0, 130)), min_size=1, max_size=8)


@settings(max_examples=5)
@given(passes=passes)
def test_bits_are_those_of_a_model_in_memory(both: Both, passes: list[tuple[bool, int, int]]) -> None:
    """Passes of one or two arenas, of any width."""
    mine, theirs = ([both.arena() for _ in range(2)] for _ in range(2))
    for is_double, count, start in passes:
        ids = TOKENS[start : start + count]
        taken = [i for i in range(1 + is_double) if mine[i].length + len(ids) <= CONTEXT]
        if taken:
            placed = both.placed.forward_spans([Span(ids, mine[i]) for i in taken])
            whole = both.whole.forward_spans([Span(ids, theirs[i]) for i in taken])
            assert np.array_equal(placed, whole)


def test_the_file_is_safetensors_made_once(both: Both) -> None:
    before = both.file.stat().st_mtime_ns
    decoder = both.open()
    assert both.file.stat().st_mtime_ns == before
    assert np.array_equal(decoder.forward(TOKENS, both.arena()), both.whole.forward(TOKENS, both.arena()))
    with safe_open(both.file, "np") as file:
        shape = file.get_tensor("layers.0.experts").shape
    assert shape[0] == experts_of(both.config).count and shape[1] % PAGE == 0
    assert not [each for each in both.file.parent.iterdir() if each.suffix.startswith(f".{os.getpid()}")]


def _cut(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size - PAGE)


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _other(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"weights', b'"WEIGHTS', 1))


@pytest.mark.parametrize("damage", [_cut, _empty, _other, Path.unlink])
def test_a_file_that_is_damaged_or_another_models_is_made_anew(both: Both, damage: Callable[[Path], None]) -> None:
    damage(both.file)
    decoder = both.open()
    assert np.array_equal(decoder.forward(TOKENS, both.arena()), both.whole.forward(TOKENS, both.arena()))
    both.placed = decoder  # the one before has a file that is gone


def test_a_pass_that_cannot_read_its_experts_raises_and_the_next_one_is_right(both: Both) -> None:
    decoder, arena, content = both.open(), both.arena(), both.file.read_bytes()
    with both.file.open("r+b") as opened:
        opened.truncate(PAGE)
    with pytest.raises(OSError, match="shorter"):
        decoder.forward(TOKENS, arena)
    assert arena.length == 0
    with both.file.open("r+b") as opened:  # the file that is open, not another one
        opened.write(content)
    assert np.array_equal(decoder.forward(TOKENS, arena), both.whole.forward(TOKENS, both.arena()))


def test_a_disk_without_room_is_named(both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: os.statvfs_result([0] * 10) and _Usage())
    placement = ExpertPlacement(tmp_path / "new" / "experts.safetensors", "weights", both.slots)
    with pytest.raises(ModelError, match="make room there, or set cache_folder"):
        NativeDecoder(both.config, both.weights, both.form, 1, keeper=placement)
    assert not [*(tmp_path / "new").iterdir()]


class _Usage:
    free = 1000


def _load(folder: Path, experts: Path | None) -> LoadedModel:
    return load(
        read_checkpoint(folder), weights="auto", threads=1, capacity=CONTEXT, kv_memory_mib=1, ngrams=False,
        progress=lambda stage, percent: None, overflow=experts,
    )  # fmt: skip


def test_a_model_that_memory_holds_in_part_alone_is_loaded_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_compiled()
    folder = make(tmp_path / "model", Tiny("qwen3_moe", layers=40, hidden=64, intermediate=64))
    config = read_config(folder)
    size, kv = model_size(config), kv_bytes(config, CONTEXT, 1)
    free = memory_need(size, "int8", kv).total - 1
    monkeypatch.setattr(fits, "available_memory", lambda: free)
    with pytest.raises(ModelError, match="GiB of memory"):
        _load(folder, None)
    described = _load(folder, tmp_path / "experts").parts.description
    assert "memory has room for" in described.decoder_reason and described.weights == "int8"
    [file] = (tmp_path / "experts").iterdir()
    assert str(file) in described.decoder_reason
    others = size._replace(parameters=size.parameters - count_experts(config))
    free = memory_need(others, "int8", kv).total
    with pytest.raises(ModelError, match="GiB of memory"):
        _load(folder, tmp_path / "experts")


Steps = list[tuple[int, list[int], list[int]]]
steps: st.SearchStrategy[Steps] = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 7), unique=True), st.lists(st.integers(0, 7), unique=True)),
    max_size=30,
)


@given(steps=steps, seed=st.integers(0, 99))
def test_every_expert_in_memory_has_a_slot_of_its_own_and_those_held_stay(steps: Steps, seed: int) -> None:
    schedule, random = Schedule(4, 8, 2, 18), np.random.default_rng(seed)
    for layer, wanted, likely in steps:
        schedule.count_tokens(layer, random.random((3, 8), np.float32), np.array(wanted, np.intp))
        held = {schedule.slot(layer, expert) for expert in wanted} - {-1}
        for of, experts in ((layer, wanted), ((layer + 1) % 4, likely)):
            for expert in schedule.absent(of, experts):
                held.add(schedule.assign(of, expert, held))
        assert not schedule.absent(layer, wanted)
        slots = [schedule.slot(of, expert) for of in range(4) for expert in range(8)]
        taken = [slot for slot in slots if slot >= 0]
        assert len(taken) == len(set(taken))


def test_what_recent_tokens_used_most_stays() -> None:
    schedule = Schedule(1, 4, 1, 2)
    often, seldom, never, new = range(4)
    for scores in ([0.9, 0.1, 0, 0],) * 20:
        schedule.count_tokens(0, np.array([scores], np.float32), np.array([often]))
    slots = [schedule.assign(0, expert, ()) for expert in (often, seldom)]
    assert schedule.assign(0, new, ()) == slots[1] and schedule.absent(0, range(4)) == [seldom, never]


def test_what_is_mostly_guessed_wrong_is_no_longer_read_ahead() -> None:
    schedule, scores = Schedule(2, 4, 2, 8), np.array([[0.4, 0.3, 0.2, 0.1]], np.float32)
    assert (ahead := schedule.guess(1, scores)) == [0, 1]
    for _ in range(10):  # the likeliest is wanted, the next one never
        schedule.count_tokens(1, scores, np.array([0, 3]))
        ahead = schedule.guess(1, scores)
    assert ahead == [0]
