"""Prompts composed of what other arenas hold: what is approximate is counted, and exact again once there is time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.decoder import Decoder
from model_runtime.engine.engine import PrepareJob
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.sequence import Quality
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.composition.composer import Composer, Composition, FirstRows
from tests.engine.doubles import Watched, decoder_of
from tests.engine.prompts import HEAD, TAIL, A, B, after, generate, prompt_of

CLOSE = 2e-4
TOKENS = np.random.default_rng(0).integers(5, 400, 400).astype(np.int32)


class EveryRow:
    """Computes every row again."""

    def rows(self, composition: Composition) -> Ids:
        return np.arange(composition.start, len(composition.ids), dtype=np.int32)


def arena_of(decoder: AnyDecoder, ids: Ids) -> Arena:
    arena = DenseArena(decoder.config, decoder.config.context)
    if len(ids):
        decoder.forward(ids, arena)
    return arena


def first_composed(arena: Arena) -> int:
    return arena.rows.first_below(Quality.LOSSY)


def first_inexact(arena: Arena) -> int:
    return arena.rows.first_below(Quality.EXACT)


def distance(arena: Arena, other: Arena, length: int) -> float:
    return max(float(np.abs((a - b)[:, :, :length]).max()) for a, b in ((arena.k, other.k), (arena.v, other.v)))


@given(old=st.integers(0, 200), new=st.integers(0, 200), start=st.integers(0, 60))
@settings(max_examples=20)
def test_a_prompt_of_which_every_row_is_computed_again_is_exact(
    decoder: AnyDecoder, old: int, new: int, start: int
) -> None:
    moved = TOKENS[200:300]
    ids = np.concatenate((TOKENS[:start], TOKENS[300 : 300 + new % 90], moved, TOKENS[:5]))
    arena = arena_of(decoder, np.concatenate((TOKENS[:start], TOKENS[100 : 100 + old % 90], moved)))
    cold = arena_of(decoder, ids[:-1])
    composed = Composer(decoder, EveryRow()).compose(arena, SequenceKey(ids), [], NEVER)
    assume(old % 90 != new % 90)  # else the arena holds the prompt
    assert arena.ids.tolist() == ids[:-1].tolist() and composed.placed == 0
    assert distance(arena, cold, len(ids) - 1) < CLOSE
    assert first_composed(arena) == first_inexact(arena) == arena.length


def test_keys_of_a_first_layer_are_exact_wherever_they_are_moved(decoder: AnyDecoder) -> None:
    source, ids = arena_of(decoder, TOKENS[:200]), np.concatenate((TOKENS[300:333], TOKENS[90:200], TOKENS[:1]))
    arena, cold = arena_of(decoder, TOKENS[:0]), arena_of(decoder, ids[:-1])
    composed = Composer(decoder, FirstRows(0)).compose(arena, SequenceKey(ids), [source], NEVER)
    assert (composed.placed, composed.computed) == (110, 33)
    assert np.abs(arena.k[0] - cold.k[0])[:, :143].max() < CLOSE
    assert np.abs(arena.v[0] - cold.v[0])[:, :143].max() < CLOSE
    assert distance(arena, cold, 143) > CLOSE


def test_rows_behind_a_room_are_composed_and_computed_again_as_without_one(folder: Path) -> None:
    config = replace(read_config(folder), excerpt_rows=64)
    behind = Decoder(config, read_weights(folder, config), "fp32")
    ids = np.concatenate((TOKENS[300:333], TOKENS[90:200], TOKENS[:1]))
    found = list[Arena]()
    for each in (decoder_of(folder), behind):
        arena, composer = arena_of(each, TOKENS[:0]), Composer(each, FirstRows(8))
        assert composer.compose(arena, SequenceKey(ids), [arena_of(each, TOKENS[:200])], NEVER).computed == 33 + 8
        found.append(arena)
    assert np.abs(found[0].v - found[1].v[:, :, 64:][:, :, : found[0].capacity])[:, :, :143].max() < CLOSE
    cold, composer = arena_of(behind, ids[:-1]), Composer(behind, FirstRows(8))
    assert composer.recompute(found[1], 143, NEVER) == 143 - 41
    assert distance(found[1], cold, 64 + 143) < CLOSE and first_inexact(found[1]) == found[1].length


def test_the_first_rows_of_each_piece_are_computed_again(decoder: AnyDecoder) -> None:
    source = arena_of(decoder, TOKENS[:200])
    key = SequenceKey(np.concatenate((TOKENS[100:200], TOKENS[390:395], TOKENS[20:90], TOKENS[:1])))
    composed = Composer(decoder, FirstRows(8)).compose(arena_of(decoder, TOKENS[:0]), key, [source], NEVER)
    assert (composed.placed, composed.computed) == (92 + 62, 8 + 5 + 8)


def test_nothing_is_composed_of_what_was_composed(decoder: AnyDecoder) -> None:
    source, composer = arena_of(decoder, TOKENS[:200]), Composer(decoder, FirstRows(4))
    first, second = arena_of(decoder, TOKENS[:0]), arena_of(decoder, TOKENS[:0])
    key = SequenceKey(np.concatenate((TOKENS[300:305], TOKENS[50:200], TOKENS[:1])))
    composer.compose(first, key, [source], NEVER)
    assert (first_composed(first), first_inexact(first)) == (9, 9)  # five were missing, four are computed again
    key = SequenceKey(np.concatenate((TOKENS[310:318], TOKENS[50:201])))
    assert composer.compose(second, key, [first], NEVER).computed == 0


def test_a_stopped_composition_leaves_no_row_that_was_not_computed(decoder: AnyDecoder) -> None:
    source = arena_of(decoder, TOKENS[:200])
    ids = np.concatenate((TOKENS[100:200], TOKENS[300:390], TOKENS[:1]))
    arena = arena_of(decoder, TOKENS[:0])
    Composer(decoder, FirstRows(2)).compose(arena, SequenceKey(ids), [source], after(1))
    assert 0 < arena.length < len(ids) - 1
    assert arena.ids.tolist() == ids[: arena.length].tolist()
    assert np.isfinite(arena.k[:, :, : arena.length]).all()


@pytest.fixture
def composing(decoder: AnyDecoder, tokenizer: Tokenizer) -> Watched:
    return Watched(decoder, tokenizer, composer=Composer(decoder, FirstRows(16)))


LINE = "def total(records):\n"
LONGER = f'"""Sums."""\n\n{HEAD}'


def test_an_answer_counts_what_was_composed_and_rest_makes_it_exact(
    composing: Watched, decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    before, now = prompt_of(tokenizer, LINE), prompt_of(tokenizer, LINE, LONGER, TAIL)
    generate(composing, before)
    made = generate(composing, now)
    assert made.reused >= 0.7 * len(now.ids) and made.reused + made.stats.recomputed == len(now.ids)
    arena = composing.pool.get(A)
    assert arena is not None and made.approximate == len(now.ids) - first_composed(arena) > 0
    cold = Watched(decoder, tokenizer)
    exact = generate(cold, now)
    assert not composing.prepare(PrepareJob(A, now), after(2))
    assert composing.prepare(PrepareJob(A, now), NEVER)
    again, other = generate(composing, now), cold.pool.get(A)
    assert again.approximate == 0 and again.stats.recomputed == 0 and again.text == exact.text
    assert other is not None and distance(arena, other, len(now.ids)) < CLOSE
    assert first_composed(arena) == first_inexact(arena) == arena.length


def test_another_document_with_the_same_text_elsewhere_is_a_source(composing: Watched, tokenizer: Tokenizer) -> None:
    generate(composing, prompt_of(tokenizer, LINE))
    made = generate(composing, prompt_of(tokenizer, LINE, LONGER), owner=B)
    assert made.approximate > made.stats.recomputed > 0


def test_without_a_composer_nothing_is_approximate(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine = Watched(decoder, tokenizer)
    generate(engine, prompt_of(tokenizer, LINE))
    made = generate(engine, prompt_of(tokenizer, LINE, LONGER))
    assert made.approximate == 0 and made.stats.recomputed > 300
