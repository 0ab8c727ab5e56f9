"""The shape of keys and values follows from the model's layers, and all sizes from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from model_runtime.checkpoint.config import parse_config
from model_runtime.kv.arena import DenseArena
from model_runtime.kv.layout import KvLayout, Plane, arena_bytes
from tests.models import Tiny, config

MODEL = parse_config(config(Tiny(layers=3, kv_heads=2, head_dim=16, context=512, excerpt_rows=64)))


def test_a_model_has_a_plane_of_rotated_keys_and_one_of_values() -> None:
    assert KvLayout.of(MODEL).planes == (Plane("k", (0, 1, 2), 2, 16, rotated=True), Plane("v", (0, 1, 2), 2, 16))


def test_an_arena_takes_what_its_layout_says() -> None:
    arena = DenseArena(MODEL, 100)
    assert np.stack((arena.k, arena.v)).shape == KvLayout.of(MODEL).shape(64 + 100)
    assert arena.k.nbytes + arena.v.nbytes == arena_bytes(MODEL, 100) == 2 * arena_bytes(MODEL, 100, element=2)


def test_layers_with_keys_of_different_shapes_are_refused() -> None:
    wider = replace(MODEL.alike, attention=replace(MODEL.alike.attention, kv_heads=4))
    with pytest.raises(ValueError, match="different shapes"):
        KvLayout.of(replace(MODEL, layers=(MODEL.alike, wider)))
