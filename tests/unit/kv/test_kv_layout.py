"""The shape of keys and values follows from the model's layers, and all sizes from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kv_store.block import BLOCK_TOKENS
from model_runtime.checkpoint.config import parse_config
from model_runtime.checkpoint.families.layer_spec import Rope
from model_runtime.kv.arena import DenseArena
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import FP32, SLACK_ROWS, KvLayout, Plane, arena_bytes
from model_runtime.kv.sequence import Quality
from tests.models import Tiny, config

MODEL = parse_config(config(Tiny(layers=3, kv_heads=2, head_dim=16, context=512, excerpt_rows=64)))


def test_a_model_has_a_plane_of_rotated_keys_and_one_of_values() -> None:
    assert KvLayout.of(MODEL).planes == (Plane("k", (0, 1, 2), 2, 16, rope=0), Plane("v", (0, 1, 2), 2, 16))


def test_an_arena_takes_what_its_layout_says() -> None:
    arena = DenseArena(MODEL, 100)
    assert [each.shape for each in arena.planes] == [each.shape(64 + 100) for each in KvLayout.of(MODEL).planes]
    assert arena.k.nbytes + arena.v.nbytes == arena_bytes(MODEL, 100) == 2 * arena_bytes(MODEL, 100, element=2)


def test_layers_of_each_kind_have_planes_of_their_own() -> None:
    wide = replace(MODEL.alike, attention=replace(MODEL.full, kv_heads=4))
    slow = replace(MODEL.alike, attention=replace(MODEL.full, rope=Rope(theta=7.0)))
    near = replace(MODEL.alike, attention=replace(MODEL.full, window=40))
    layout = KvLayout.of(replace(MODEL, layers=(MODEL.alike, wide, slow, near, MODEL.alike)))
    assert layout.planes[::2] == (
        Plane("k", (0, 4), 2, 16, rope=0),
        Plane("k", (1,), 4, 16, rope=0),
        Plane("k", (2,), 2, 16, rope=1),
        Plane("k", (3,), 2, 16, rope=0, window=40),
    )
    assert layout.planes[1::2] == tuple(each._replace(name="v", rope=-1) for each in layout.planes[::2])
    assert layout.places == dict(enumerate(((0, 0), (1, 0), (2, 0), (3, 0), (0, 1))))
    assert layout.window == 40


def test_layers_that_slide_keep_rows_for_the_longest_of_their_windows_and_some_more() -> None:
    near, far = (replace(MODEL.alike, attention=replace(MODEL.full, window=each)) for each in (40, 300))
    layout = KvLayout.of(replace(MODEL, layers=(near, far, MODEL.alike)))
    assert [plane.window for plane in layout.planes] == [300, 300, 300, 300, 0, 0]
    rows = 300 + SLACK_ROWS
    assert [plane.rows(9000) for plane in layout.planes] == [rows] * 4 + [9000] * 2
    assert layout.arena_bytes(9000) == FP32 * 2 * 2 * 16 * (2 * rows + 9000)
    assert layout.arena_bytes(200) == 200 * layout.token_bytes


@pytest.mark.parametrize("form", [Form.RAW, Form.BF16, Form.INT8])
def test_planes_of_unequal_shape_go_from_an_arena_through_a_block_into_another(
    form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A latent and a rotated part, of other widths and heads, as compressed keys have them."""
    layers = (0, 1, 2)
    layout = KvLayout((Plane("k", layers, 1, 8, rope=0), Plane("v", layers, 2, 20)))
    monkeypatch.setattr(KvLayout, "of", lambda config, element=FP32: layout)
    one, other = (DenseArena(MODEL, 3 * BLOCK_TOKENS) for _ in range(2))
    rng, ids = np.random.default_rng(0), np.arange(2 * BLOCK_TOKENS, dtype=np.int32)
    made = [rng.integers(-127, 128, each.shape(len(ids))).astype(np.float32) for each in layout.planes]
    made[0][:, :, ::BLOCK_TOKENS] = made[1][..., ::20] = 127  # so that the scales of int8 are 1
    one.copy_in(ids, made, Quality.EXACT)
    turns = (np.ones((MODEL.context, 4), np.complex64),)
    codec = KvCodec(layout, BLOCK_TOKENS, turns, form)
    for start in (0, BLOCK_TOKENS):
        data = codec.encode(one.read(start, start + BLOCK_TOKENS), start, form)
        assert len(data) == codec.size(form)
        other.copy_in(ids[start : start + BLOCK_TOKENS], codec.decode(data, start, form), Quality.EXACT)
    for kept, numbers in zip(other.copy_out(0, len(ids)), made, strict=True):
        assert np.array_equal(kept, numbers)
    third = DenseArena(MODEL, 3 * BLOCK_TOKENS)
    third.copy_prefix(other, 20)
    assert all(np.array_equal(a, b) for a, b in zip(third.read(0, 20), other.read(0, 20), strict=True))
    assert arena_bytes(MODEL, 0) == 4 * 3 * (8 + 40) * MODEL.excerpt_rows


def test_a_raw_block_has_one_plane_after_the_other() -> None:
    layout = KvLayout((Plane("k", (0,), 1, 1), Plane("v", (0, 1), 1, 2)))
    planes = [
        np.arange(2, dtype=np.float32).reshape(1, 1, 2, 1),
        np.arange(2, 10, dtype=np.float32).reshape(2, 1, 2, 2),
    ]
    data = KvCodec(layout, 2, None).encode(planes, 0, Form.RAW)
    assert data.view(np.float32).tolist() == list(range(10))


def test_what_is_read_is_the_arenas_own_and_a_copy_is_not() -> None:
    arena = DenseArena(MODEL, BLOCK_TOKENS)
    arena.append(np.zeros(4, np.int32))
    read, copied = arena.read(0, 4), arena.copy_out(0, 4)
    arena.k[...] = 1
    assert read[0].all() and not copied[0].any()
