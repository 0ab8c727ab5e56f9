"""Rows at any places, excerpts in a room and which rows see them: in every decoder of a CPU, beside transformers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils import logging as transformers_logging

from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import AnyDecoder, Span
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.gpu.attention import choose_attention
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.kernels import Kernels
from model_runtime.decoder.gpu.slab import Slab
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.decoder.native.library import instruction_sets
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.layout import turned
from model_runtime.sequence_key import TextsApart, texts_apart
from model_runtime.shelves.isolated.library import ExcerptLibrary
from tests.compiled import require_compiled
from tests.engine.doubles import fetched
from tests.engine.gpu.loading import unrecorded
from tests.models import VOCABULARY, Tiny, make, reference

transformers_logging.disable_progress_bar()

ROOM, WINDOW = 128, 150
TINY = [Tiny(family, context=ROOM + WINDOW, excerpt_rows=ROOM, seed=3) for family in ("qwen2", "efim")]
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, ROOM + WINDOW).astype(np.int32)
CLOSE = {"torch fp32": 2e-5, "gpu": 2e-5, "fp16": 2e-5, "int8": 0.2}  # of the largest logit; int8 rounds the weights
EXACT = [(form, each) for form in ("fp16", "int8") for each in instruction_sets()]
EXCERPTS = [TOKENS[200:237], TOKENS[150:151], TOKENS[237:300]]

Made = tuple[AnyDecoder, Callable[[], Arena], Arena]  # a decoder, what makes its arenas, and one without a room


@pytest.fixture(scope="module", params=TINY, ids=lambda tiny: tiny.family)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("excerpt_rows"), request.param, half=True)


def made(folder: Path, form: str, instructions: str | None = None, threads: int = 2) -> Made:
    config = read_config(folder)
    weights = read_weights(folder, config)
    if form == "gpu":
        slab = Slab(config, WINDOW, 3, torch.float32, torch.device("cpu"))
        attend = choose_attention(slab, config.full.heads).attend
        return GpuDecoder(config, weights, slab, attend, Kernels(), unrecorded), slab.arena, slab.scratch()
    if form == "torch fp32":
        decoder: AnyDecoder = Decoder(config, weights, "fp32")
    else:
        require_compiled()
        decoder = NativeDecoder(config, weights, "fp16" if form == "fp16" else "int8", threads, instructions)
    return decoder, lambda: junk(config), DenseArena(ModelConfig(**{**vars(config), "excerpt_rows": 0}), ROOM)


def junk(config: ModelConfig) -> Arena:
    """An arena full of what must not be read."""
    arena = DenseArena(config, WINDOW)
    arena.k.fill(np.nan)
    arena.v.fill(np.inf)
    return arena


def placed(decoder: AnyDecoder, arena: Arena, scratch: Arena, excerpts: TextsApart, chunk: int = 64) -> Arena:
    """The arena, with these excerpts in its room."""
    assert decoder.rotations is not None
    library = ExcerptLibrary(scratch, decoder.rotations, ROOM)

    def compute(ids: Ids, into: Arena) -> None:
        decoder.forward(ids, into)

    library.ready(excerpts, None, compute, chunk, NEVER)
    if arena.enter(excerpts):
        library.place(arena)
    return arena


class Masked:
    """Plain passes of the reference, each computed once."""

    def __init__(self, folder: Path) -> None:
        self._reference = reference(folder)
        self._logits: dict[tuple[object, ...], np.ndarray] = {}

    def __call__(self, excerpts: list[Ids], before_excerpts: int, window: Ids) -> np.ndarray:
        """The logits [len(window), vocab] of one pass with a mask over excerpts and window."""
        key = (*(each.tobytes() for each in (*excerpts, window)), before_excerpts)
        if key not in self._logits:
            self._logits[key] = masked(self._reference, excerpts, before_excerpts, window).numpy()
        return self._logits[key]


@pytest.fixture(scope="module")
def plain(folder: Path) -> Masked:
    return Masked(folder)


def masked(theirs: torch.nn.Module, excerpts: list[Ids], before_excerpts: int, window: Ids) -> torch.Tensor:
    """The logits [len(window), vocab] of a plain pass."""
    ends = np.cumsum([0, *map(len, excerpts)])
    total = int(ends[-1]) + len(window)
    begins = np.zeros(total, dtype=np.int64)
    for start, end in pairwise(ends):
        begins[start:end] = start
    begins[ends[-1] : ends[-1] + before_excerpts] = ends[-1]
    at = np.arange(total)
    seen = torch.as_tensor((at <= at[:, None]) & (at >= begins[:, None]))
    bias = torch.zeros(total, total).masked_fill(~seen, torch.finfo(torch.float32).min)
    ids = torch.as_tensor(np.concatenate([*excerpts, window]).astype(np.int64))[None]
    with torch.inference_mode():  # only distances count to a rotation, so that places may begin at 0
        found = theirs(input_ids=ids, attention_mask=bias[None, None], use_cache=False)
    return found.logits[0, int(ends[-1]) :]


@pytest.mark.parametrize("form", CLOSE)
@pytest.mark.parametrize("excerpts", [EXCERPTS, EXCERPTS[::-1], EXCERPTS[:1], [TOKENS[:ROOM]], []], ids=len)
@pytest.mark.parametrize("before_excerpts", [0, 70])
def test_both_masks_are_those_of_a_plain_pass(
    folder: Path, plain: Masked, form: str, excerpts: list[Ids], before_excerpts: int
) -> None:
    decoder, arena, scratch = made(folder, form)
    window = TOKENS[:120]
    mine = placed(decoder, arena(), scratch, texts_apart(excerpts, before_excerpts))
    found = np.concatenate([fetched(decoder.forward(window[i : i + 50], mine, 50)) for i in (0, 50)])
    found = np.concatenate([found, fetched(decoder.forward(window[100:], mine, 20))])
    wanted = plain(excerpts, before_excerpts, window)
    assert np.abs(found - wanted).max() <= CLOSE[form] * np.abs(wanted).max()
    if excerpts and form != "int8":  # they matter, and to those that see them alone
        other = plain([], 0, window)
        assert (np.abs(other - wanted).max(1) > 100 * CLOSE[form]).tolist() == [
            i >= before_excerpts for i in range(120)
        ]


@pytest.mark.parametrize(("form", "instructions"), EXACT)
@settings(max_examples=3)
@given(data=st.data())
def test_a_row_has_the_same_bits_in_any_company_whatever_lies_in_the_room(
    folder: Path, form: str, instructions: str, data: st.DataObject
) -> None:
    decoder, arena, scratch = made(folder, form, instructions)
    single, _, _ = made(folder, form, instructions, threads=1)
    cuts = data.draw(st.lists(st.integers(0, ROOM), max_size=4).map(sorted))
    room, before_excerpts = [TOKENS[a:b] for a, b in pairwise(cuts)], data.draw(st.integers(0, WINDOW))
    excerpts = texts_apart(room, before_excerpts)
    chunks = st.integers(1, ROOM)
    alone = placed(single, arena(), scratch, excerpts, 1)
    steps = np.concatenate([fetched(single.forward(TOKENS[i : i + 1], alone)) for i in range(WINDOW)])
    arenas = [placed(decoder, arena(), scratch, excerpts, data.draw(chunks)) for _ in range(2)]
    logits: list[tuple[int, np.ndarray]] = []
    while any(each.length < WINDOW for each in arenas):
        spans = list[Span]()
        for each in arenas:
            if new := data.draw(st.integers(0, min(WINDOW - each.length, 90))):
                spans.append(Span(TOKENS[each.length :][:new], each, data.draw(st.integers(1, new))))
        for each in arenas:
            if each.length == WINDOW or (each.length and data.draw(st.booleans())):
                at = np.array(data.draw(st.sets(st.integers(0, each.length - 1), max_size=20)), dtype=object)
                places = np.array(sorted(at.tolist()), dtype=np.int32)
                if len(places) and all(span.arena is not each for span in spans):
                    each.k[:, :, ROOM + places] = np.nan
                    spans.append(Span(TOKENS[places], each, 1, places))
        if not spans:
            spans = [Span(TOKENS[each.length :][:1], each) for each in arenas if each.length < WINDOW]
        placed_at = [each.arena.places_of_pass(len(each.ids), each.recomputed) for each in spans]
        asked = [int(place) for span, at in zip(spans, placed_at, strict=True) for place in at[-span.rows :]]
        logits += zip(asked, fetched(decoder.forward_spans(spans)), strict=True)
    for each in arenas:
        begin = ROOM - excerpts.tokens
        assert np.array_equal(each.k[:, :, begin:], alone.k[:, :, begin:])
        assert np.array_equal(each.v[:, :, begin:], alone.v[:, :, begin:])
    assert all(np.array_equal(row, steps[at]) for at, row in logits)


def test_a_rotation_is_the_one_to_the_place(folder: Path) -> None:
    decoder, arena, scratch = made(folder, "fp16")
    mine = placed(decoder, arena(), scratch, texts_apart([TOKENS[:20]], 0))
    assert decoder.rotations is not None
    (keys, _), factors = scratch.copy_out(0, 20), decoder.rotations[0][ROOM - 20].astype(np.complex128)
    pairs = keys.reshape(*keys.shape[:3], -1, 2).astype(np.float64)
    exact = (pairs[..., 0] + 1j * pairs[..., 1]) * factors
    found = mine.k[:, :, ROOM - 20 : ROOM].reshape(pairs.shape)
    assert np.abs(found[..., 0] - exact.real).max() <= 1e-6 * np.abs(exact).max()
    assert np.abs(found[..., 1] - exact.imag).max() <= 1e-6 * np.abs(exact).max()
    [table] = decoder.rotations
    assert np.array_equal(turned(keys[:, :, :3], table[5]), turned(keys, table[5])[:, :, :3])


@pytest.mark.parametrize("form", ["fp16", "int8"])
def test_a_pass_at_places_and_behind_other_arenas_with_the_same_beginning(folder: Path, form: str) -> None:
    decoder, arena, _ = made(folder, form)
    first, second, alone = arena(), arena(), arena()
    for each in (first, second):
        decoder.forward(TOKENS[:140], each)
    before, at = first.k[:, :, ROOM:][:, :, :140].copy(), np.array([1, 5, 6, 70, 139], dtype=np.int32)
    first.k[:, :, ROOM + at] = np.nan
    logits = decoder.forward_spans([Span(TOKENS[at], first, 1, at), Span(TOKENS[140:150], second, 10)])
    assert np.array_equal(first.k[:, :, ROOM:][:, :, :140], before) and (first.length, second.length) == (140, 150)
    steps = [fetched(decoder.forward(TOKENS[i : i + 1], alone))[0] for i in range(150)]
    assert np.array_equal(fetched(logits), steps[139:])


@pytest.mark.parametrize("at", [[3, 2], [4, 4], [-1, 2], [8, 10], [1]])
def test_places_that_an_arena_cannot_compute_again_are_refused(folder: Path, at: list[int]) -> None:
    decoder, arena, _ = made(folder, "fp16")
    mine = arena()
    decoder.forward(TOKENS[:10], mine)
    with pytest.raises(IndexError, match="cannot be computed again"):
        decoder.forward_spans([Span(TOKENS[:2], mine, 1, np.array(at, dtype=np.int32))])
