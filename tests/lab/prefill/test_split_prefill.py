"""Processes that share a prompt's prefill compute the bits of one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill.processes import split_prefill
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.decoder.quantization import Format
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena
from tests.compiled import require_compiled
from tests.models import VOCABULARY, Tiny, make

TOKENS = 200
CASES: list[tuple[Tiny, Format, list[int]]] = [
    (Tiny("efim", layers=4, context=TOKENS), "fp16", [0, 110, 200]),
    (Tiny("efim", layers=4, context=TOKENS), "int8", [0, 1, 200]),
    (Tiny("efim", layers=3, context=TOKENS), "int8", [0, 199, 200]),
    (Tiny("llama", layers=3, context=TOKENS), "fp16", [0, 80, 150, 200]),
    (Tiny("gemma", layers=2, context=TOKENS), "int8", [0, 64, 200]),
    (Tiny("mixtral", layers=2, context=TOKENS), "fp16", [0, 200]),
    (Tiny("deepseek_v2", layers=3, context=TOKENS), "fp16", [0, 90, 200]),
]


@pytest.fixture(autouse=True)
def compiled() -> None:
    require_compiled()


def prompt() -> Ids:
    return np.random.default_rng(0).integers(0, VOCABULARY, TOKENS, dtype=np.int32)


@pytest.mark.parametrize(("tiny", "form", "cuts"), CASES, ids=lambda each: str(getattr(each, "family", each)))
def test_a_split_prompt_has_the_bits_of_one_process(
    tmp_path: Path, tiny: Tiny, form: Format, cuts: list[int]
) -> None:
    folder, ids = make(tmp_path, tiny), prompt()
    config = read_config(folder)
    arena = DenseArena(config, TOKENS)
    logits = NativeDecoder(config, read_weights(folder, config), form, 1).forward(ids, arena)[0]

    found = split_prefill(folder, form, ids, cuts, tries=2)
    assert np.array_equal(found.logits, logits)
    for plane, alone in zip(found.planes, arena.planes, strict=True):
        assert np.array_equal(plane, alone)
    assert len(found.seconds) == 2


def test_a_model_with_windows_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path, Tiny("mistral", window=30, context=TOKENS))
    with pytest.raises(WorkError, match="a window alone"):
        split_prefill(folder, "fp16", prompt(), [0, 100, TOKENS])


@pytest.mark.parametrize("cuts", [[0, 100], [10, TOKENS], [0, 150, 100, TOKENS], [0, 100, 100, TOKENS]])
def test_cuts_that_do_not_make_parts_are_refused(tmp_path: Path, cuts: list[int]) -> None:
    with pytest.raises(WorkError, match="do not cut 200 tokens"):
        split_prefill(make(tmp_path, Tiny(context=TOKENS)), "fp16", prompt(), cuts)


def test_a_process_that_ends_early_ends_the_others(tmp_path: Path) -> None:
    """The second one finds no room for its tokens' embeddings: there are no such tokens."""
    ids = prompt()
    ids[150:] = VOCABULARY + 1000
    with pytest.raises(WorkError, match="has ended early"):
        split_prefill(make(tmp_path, Tiny(context=TOKENS)), "fp16", ids, [0, 100, TOKENS])
