"""Blocks as bytes: raw ones to the bit, int8 within half a step of each channel's or token's own scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.kv.arena import DenseArena
from model_runtime.kv.codec import PART, RECENT_TOKENS, SINK_TOKENS, Floats, Form, KvCodec, Rotations
from model_runtime.kv.layout import KvLayout, Plane
from tests.engine.doubles import decoder_of, ids_of
from tests.models import Tiny, make

CONTEXT = 96
BLOCK_TOKENS = 16
FP = 2e-6  # what turning a pair there and back may cost, of its length
SHAPES = st.builds(KvLayout.keys_and_values, st.integers(1, 3), st.integers(1, 2), st.sampled_from((2, 4, 6, 16)))
FIRSTS = st.integers(0, CONTEXT - BLOCK_TOKENS)
SEEDS = st.integers(0, 2**32 - 1)
SMALL = KvLayout.keys_and_values(2, 1, 4)
FORMS = (Form.RAW, Form.INT8, Form.BF16)  # of blocks with all planes


def stacked(shape: KvLayout) -> tuple[int, ...]:
    """The shape of a block's planes as one array, if they are alike."""
    [each] = {plane.shape(BLOCK_TOKENS) for plane in shape.planes}
    return len(shape.planes), *each


def rotations(head_dim: int) -> Rotations:
    angles = np.outer(np.arange(CONTEXT), 100.0 ** -(np.arange(0, head_dim, 2) / head_dim))
    return (np.exp(1j * angles).astype(np.complex64),)


def codec(shape: KvLayout) -> KvCodec:
    return KvCodec(shape, BLOCK_TOKENS, rotations(shape.planes[0].width))


def rotated(keys: Floats, first: int) -> Floats:
    turns = rotations(keys.shape[-1])[0][first : first + BLOCK_TOKENS]
    return (keys.view(np.complex64) * turns).view(np.float32)


def unrotated(keys: Floats, first: int) -> npt.NDArray[np.float64]:
    """Before rotary embedding, in twice the precision."""
    turns = rotations(keys.shape[-1])[0][first : first + BLOCK_TOKENS].astype(np.complex128)
    return (keys.astype(np.float64).view(np.complex128) / turns).view(np.float64)


def block(shape: KvLayout, seed: int) -> Floats:
    """Keys and values of sizes from 1e-6 to 1e6, each channel and each token its own; some are all zero."""
    rng = np.random.default_rng(seed)
    kv = rng.standard_normal(stacked(shape))
    for axis in (3, 4):
        sizes = 10.0 ** rng.uniform(-3, 3, kv.shape) * (rng.random(kv.shape) < 0.9)
        kv *= np.take(sizes, [0], axis)
    return kv.astype(np.float32)


def bf16_numbers(kv: Floats) -> Floats:
    """The same without the digits that bf16 has not."""
    return (kv.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def through(kv: Floats, first: int, shape: KvLayout) -> Floats:
    """Written as int8 and read again."""
    return np.stack(codec(shape).decode(codec(shape).encode(kv, first, Form.INT8), first, Form.INT8))


@given(shape=SHAPES, first=FIRSTS, seed=SEEDS)
def test_raw_blocks_come_back_to_the_bit(shape: KvLayout, first: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 256, shape.token_bytes * BLOCK_TOKENS).astype(np.uint8)
    kv = bits.view(np.float32).reshape(stacked(shape))  # NaN of any kind among them
    data = codec(shape).encode(kv, first, Form.RAW)
    assert data.tobytes() == kv.tobytes()
    assert np.stack(codec(shape).decode(data, first, Form.RAW)).tobytes() == kv.tobytes()


@given(shape=SHAPES, first=FIRSTS, seed=SEEDS)
def test_bf16_blocks_come_back_to_the_bit_at_two_bytes_a_number(shape: KvLayout, first: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 1 << 16, shape.token_bytes * BLOCK_TOKENS // 4).astype(np.uint16)
    tensor = torch.from_numpy(bits).view(torch.bfloat16)  # NaN of any kind and infinities among them
    kv = tensor.float().numpy().reshape(stacked(shape))
    data = codec(shape).encode(kv, first, Form.BF16)
    assert data.tobytes() == bits.tobytes() and 2 * len(data) == shape.token_bytes * BLOCK_TOKENS
    found = np.stack(codec(shape).decode(data, first, Form.BF16))
    assert found.tobytes() == kv.tobytes()
    finite = torch.isfinite(tensor)
    assert torch.equal(torch.from_numpy(found.reshape(-1)).bfloat16()[finite], tensor[finite])


@given(first=FIRSTS, at=st.integers(0, SMALL.token_bytes * BLOCK_TOKENS // 4 - 1), bit=st.integers(0, 15))
def test_bf16_refuses_a_number_with_more_digits(first: int, at: int, bit: int) -> None:
    kv = np.ones(stacked(SMALL), np.float32)
    kv.reshape(-1).view(np.uint32)[at] |= 1 << bit
    with pytest.raises(ValueError, match="more digits than bf16"):
        codec(SMALL).encode(kv, first, Form.BF16)


def test_a_raw_block_is_read_without_a_copy() -> None:
    data = np.zeros(SMALL.token_bytes * BLOCK_TOKENS, np.uint8)
    assert all(np.shares_memory(plane, data) for plane in codec(SMALL).decode(data, 0, Form.RAW))


@given(shape=SHAPES, first=FIRSTS, seed=SEEDS)
def test_a_key_is_off_by_half_a_step_of_its_channel_before_rotation(shape: KvLayout, first: int, seed: int) -> None:
    kv = block(shape, seed)
    before, after = unrotated(kv[0], first), unrotated(through(kv, first, shape)[0], first)
    steps = np.abs(before).max(2, keepdims=True) / 127
    length = np.abs(before.view(np.complex128)).max(2, keepdims=True).repeat(2, axis=-1)
    assert (np.abs(after - before) <= steps / 2 * (1 + 1e-5) + FP * length).all()


@given(shape=SHAPES, first=FIRSTS, seed=SEEDS)
def test_a_value_is_off_by_half_a_step_of_its_token(shape: KvLayout, first: int, seed: int) -> None:
    kv = block(shape, seed)
    steps = np.abs(kv[1]).max(3, keepdims=True) / 127
    assert (np.abs(through(kv, first, shape)[1] - kv[1]) <= steps / 2 * (1 + 1e-4)).all()


@given(shape=SHAPES, first=FIRSTS, seed=SEEDS)
def test_encoding_again_loses_nothing_more(shape: KvLayout, first: int, seed: int) -> None:
    once = through(block(shape, seed), first, shape)
    twice = through(once, first, shape)
    assert np.allclose(twice[1], once[1], rtol=1e-6, atol=0)
    lengths = np.abs(once[0].view(np.complex64)).max(2, keepdims=True).repeat(2, axis=-1)
    assert (np.abs(twice[0] - once[0]) <= 2 * FP * lengths).all()


@given(first=FIRSTS, seed=SEEDS)
def test_loss_of_keys_does_not_depend_on_their_position(first: int, seed: int) -> None:
    kv = np.random.default_rng(seed).standard_normal(stacked(KvLayout.keys_and_values(1, 1, 8))).astype(np.float32)
    found: list[npt.NDArray[np.float64]] = []
    for at in (0, first):
        placed = np.stack((rotated(kv[0], at), kv[1]))
        found.append(unrotated(through(placed, at, KvLayout.keys_and_values(1, 1, 8))[0], at))
    steps = np.abs(kv[0]).max(2, keepdims=True) / 127
    off = np.abs(found[0] - found[1])
    assert (off <= 1.001 * steps).all(), "one step, where rounding errors tip the scales"
    assert (off > 0.001 * steps).mean() < 0.05


def test_keys_in_an_arena_are_rotated_back_as_the_model_rotated_them(tmp_path: Path) -> None:
    """A token's first keys are alike at all positions but for rotation: all of a channel is its largest number."""
    decoder = decoder_of(make(tmp_path, Tiny(layers=1)))
    arena = DenseArena(decoder.config, 64)
    decoder.forward(ids_of([7] * 64), arena)
    shape = KvLayout.of(decoder.config)
    for first in (0, 48):
        tokens = slice(first, first + BLOCK_TOKENS)
        kv = np.stack((arena.k[:, :, tokens], arena.v[:, :, tokens]))
        errors = [
            _largest_error(KvCodec(shape, BLOCK_TOKENS, turns), kv, first) for turns in (decoder.rotations, None)
        ]
        assert errors[0] < 1e-5 * np.abs(kv[0]).max()
        assert errors[1] > 1e-3 * np.abs(kv[0]).max(), "without rotations they differ, and lose"


def _largest_error(codec: KvCodec, kv: Floats, first: int) -> float:
    return float(np.abs(codec.decode(codec.encode(kv, first, Form.INT8), first, Form.INT8)[0] - kv[0]).max())


@pytest.mark.parametrize("channel", range(4))
def test_a_large_channel_of_keys_leaves_the_others_alone(channel: int) -> None:
    keys = np.random.default_rng(0).uniform(-1, 1, stacked(SMALL)[1:]).astype(np.float32)
    keys[..., channel] += 1000
    kv = np.stack((rotated(keys, 37), keys))
    off = np.abs(unrotated(through(kv, 37, SMALL)[0], 37) - keys)
    assert np.delete(off, channel, axis=-1).max() < 0.006


def test_a_large_token_of_values_leaves_the_others_alone() -> None:
    kv = np.random.default_rng(0).uniform(-1, 1, stacked(SMALL)).astype(np.float32)
    kv[1, :, :, 5] *= 1000
    off = np.abs(through(kv, 0, SMALL) - kv)[1]
    assert np.delete(off, 5, axis=2).max() < 0.006


def test_one_layer_or_head_leaves_the_others_alone() -> None:
    shape = KvLayout.keys_and_values(2, 2, 2)
    kv = np.random.default_rng(0).uniform(-1, 1, stacked(shape)).astype(np.float32)
    kv[:, 1, 0] *= 1000
    off = np.abs(through(kv, 0, shape) - kv)
    assert max(off[:, 0].max(), off[:, 1, 1].max()) < 0.01


def test_the_order_of_bytes_is_the_format_on_disk() -> None:
    shape = KvLayout.keys_and_values(1, 1, 2)
    kv = np.zeros(stacked(shape), np.float32)
    kv[0, 0, 0, 0] = 127.0, -254.0  # the first token's key
    kv[0, 0, 0, 1] = 3.0, 4.0
    kv[1, 0, 0, 15] = 63.5, -10.0  # the last one's value
    data = KvCodec(shape, BLOCK_TOKENS, None).encode(kv, 0, Form.INT8)
    scales, numbers = data[:72].view(np.float32).tolist(), data[72:].view(np.int8).tolist()
    assert scales == [1.0, 2.0] + [0.0] * 15 + [0.5]
    assert numbers == [127, -127, 3, 2] + [0] * 28 + [0] * 30 + [127, -20]


@pytest.mark.parametrize(
    "shape, raw, int8",
    [
        (KvLayout.keys_and_values(1, 1, 2), 256, 136),
        (KvLayout.keys_and_values(6, 1, 64), 49_152, 14_208),
        (KvLayout.keys_and_values(24, 2, 64), 393_216, 113_664),
    ],
)
def test_sizes(shape: KvLayout, raw: int, int8: int) -> None:
    assert [codec(shape).size(form) for form in FORMS] == [raw, int8, raw // 2]
    kv = np.zeros(stacked(shape), np.float32)
    assert [len(codec(shape).encode(kv, 0, form)) for form in FORMS] == [raw, int8, raw // 2]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("other", [-1, 1, 4])
def test_bytes_of_another_size_are_refused(form: Form, other: int) -> None:
    for size in (0, codec(SMALL).size(form) + other, codec(SMALL).size(Form((form + 1) % 3))):
        with pytest.raises(ValueError, match=f"{size} bytes"):
            codec(SMALL).decode(np.zeros(size, np.uint8), 0, form)


@pytest.mark.filterwarnings("error")
def test_zero_stays_zero() -> None:
    assert not through(np.zeros(stacked(SMALL), np.float32), 16, SMALL).any()


@pytest.mark.filterwarnings("error")
def test_numbers_too_small_for_a_scale_become_zero() -> None:
    """Where a scale has no inverse, what becomes of a number would depend on the processor."""
    for number in (1e-45, 1e-40, 1e-37):
        assert not codec(SMALL).encode(np.full(stacked(SMALL), number, np.float32), 16, Form.INT8).any()


@given(first=FIRSTS, exponent=st.integers(-45, -30), seed=SEEDS)
def test_tiny_numbers_become_zero_at_worst(first: int, exponent: int, seed: int) -> None:
    kv = (np.random.default_rng(seed).standard_normal(stacked(SMALL)) * 10.0**exponent).astype(np.float32)
    off = np.abs(through(kv, first, SMALL) - kv)
    assert off.max() <= max(127 * 1.2e-38 * 2**0.5, np.abs(kv).max() / 100)


@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("half", [0, 1])
@given(first=FIRSTS, at=st.integers(0, SMALL.token_bytes * BLOCK_TOKENS // 8 - 1))
def test_int8_refuses_numbers_that_are_not_finite_and_raw_keeps_them(
    half: int, wrong: float, first: int, at: int
) -> None:
    kv = np.ones(stacked(SMALL), np.float32)
    kv[half].reshape(-1)[at] = wrong
    with pytest.raises(ValueError, match="not finite"):
        codec(SMALL).encode(kv, first, Form.INT8)
    assert codec(SMALL).encode(kv, first, Form.RAW).tobytes() == kv.tobytes()


def test_keys_that_are_too_large_to_be_rotated_are_refused() -> None:
    kv = np.full(stacked(SMALL), 3e38, np.float32)
    with pytest.raises(ValueError, match="not finite"):
        codec(SMALL).encode(kv, 0, Form.INT8)


@pytest.mark.parametrize("first", [-1, CONTEXT - BLOCK_TOKENS + 1, CONTEXT - 1, CONTEXT])
def test_a_block_beyond_the_context_is_refused(first: int) -> None:
    data = codec(SMALL).encode(np.ones(stacked(SMALL), np.float32), CONTEXT - BLOCK_TOKENS, Form.INT8)
    with pytest.raises(ValueError, match=f"token {first} "):
        codec(SMALL).decode(data, first, Form.INT8)
    with pytest.raises(ValueError, match=f"token {first} "):
        codec(SMALL).encode(np.ones(stacked(SMALL), np.float32), first, Form.INT8)


def test_rotations_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match="head_dim of 4"):
        KvCodec(SMALL, BLOCK_TOKENS, rotations(8))


@pytest.mark.parametrize("form", FORMS)
def test_arrays_and_bytes_need_no_alignment(form: Form) -> None:
    """A part of an arena, which is not contiguous, and bytes behind a header of any length."""
    arena = bf16_numbers(np.random.default_rng(0).standard_normal((2, 2, 1, 64, 4)).astype(np.float32))
    part = arena[:, :, :, 16:32]
    data = codec(SMALL).encode(part, 16, form)
    assert data.tobytes() == codec(SMALL).encode(part.copy(), 16, form).tobytes()
    file = np.concatenate((np.zeros(3, np.uint8), data))
    found = codec(SMALL).decode(file[3:], 16, form)
    assert np.array_equal(found, codec(SMALL).decode(data, 16, form))


@pytest.mark.parametrize("form", FORMS)
def test_encode_and_decode_leave_their_arguments_alone(form: Form) -> None:
    kv = bf16_numbers(np.random.default_rng(0).standard_normal(stacked(SMALL)).astype(np.float32))
    before = kv.copy()
    data = codec(SMALL).encode(kv, 16, form)
    written = data.tobytes()
    codec(SMALL).decode(data, 16, form)
    assert np.array_equal(kv, before)
    assert data.tobytes() == written


def form_at(first: int, length: int, wanted: Form) -> int:
    return codec(SMALL).forms_at((), first, length, wanted)[0]


@pytest.mark.parametrize(
    "first, length, form",
    [
        (0, 2048, Form.RAW),
        (16, 2048, Form.INT8),
        (16, 160, Form.INT8),
        (16, 159, Form.RAW),
        (1904, 2047, Form.RAW),
        (1904, 2048, Form.INT8),
        (1920, 2048, Form.RAW),
        (16, 32, Form.RAW),
    ],
)
def test_the_ends_of_a_sequence_stay_raw(first: int, length: int, form: Form) -> None:
    assert form_at(first, length, Form.INT8) == form
    assert form_at(first, length, Form.RAW) == Form.RAW


@given(st.integers(0, 200), st.integers(1, 3000))
def test_a_block_is_raw_if_any_of_its_tokens_must_be(number: int, length: int) -> None:
    tokens = range(number * BLOCK_TOKENS, (number + 1) * BLOCK_TOKENS)
    must = any(token < SINK_TOKENS or token >= length - RECENT_TOKENS for token in tokens)
    assert form_at(tokens.start, length, Form.INT8) == (Form.RAW if must else Form.INT8)


FULL, NEAR = (0, 2), (1, 3)
SLIDING = KvLayout(
    (
        Plane("k", FULL, 1, 4, rope=0), Plane("v", FULL, 1, 4),
        Plane("k", NEAR, 2, 4, rope=1, window=20), Plane("v", NEAR, 2, 4, window=20),
    )
)  # fmt: skip
TWO_ROPES = (*rotations(4), np.conj(rotations(4)[0]))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_a_block_whose_layers_that_slide_have_gone_on_lacks_their_planes(kept: bool, form: Form) -> None:
    rng, codec_of_both = np.random.default_rng(0), KvCodec(SLIDING, BLOCK_TOKENS, TWO_ROPES, Form.BF16)
    shapes = [plane.shape(BLOCK_TOKENS if kept or not plane.window else 0) for plane in SLIDING.planes]
    rows = [bf16_numbers(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
    tried, any_numbers = codec_of_both.forms_at(rows, 32, 4096, form)
    assert (tried, any_numbers) == ((form, Form.RAW) if kept else (PART + form, Form.PART_RAW))
    data = codec_of_both.encode(rows, 32, tried)
    assert len(data) == codec_of_both.size(tried)
    found = codec_of_both.decode(data, 32, tried)
    assert [plane.shape for plane in found] == shapes
    assert all(np.allclose(*pair, atol=0 if form != Form.INT8 else 0.03) for pair in zip(found, rows, strict=True))
    assert codec_of_both.is_exact(tried) == (form != Form.INT8)


@pytest.mark.parametrize("form", FORMS)
def test_a_block_of_layers_that_all_slide_may_have_nothing(form: Form) -> None:
    layout = KvLayout(SLIDING.planes[2:])
    of_near = KvCodec(layout, BLOCK_TOKENS, TWO_ROPES)
    rows = [np.empty(plane.shape(0), np.float32) for plane in layout.planes]
    data = of_near.encode(rows, 0, PART + form)
    assert not len(data)
    assert [plane.shape for plane in of_near.decode(data, 0, PART + form)] == [each.shape for each in rows]


def test_each_plane_is_rotated_back_by_its_own_rope() -> None:
    rows = [np.ones(plane.shape(BLOCK_TOKENS), np.float32) for plane in SLIDING.planes]
    for plane, numbers in zip(SLIDING.planes, rows, strict=True):
        if plane.rotated:
            numbers.view(np.complex64)[...] *= TWO_ROPES[plane.rope][32 : 32 + BLOCK_TOKENS]
    both = KvCodec(SLIDING, BLOCK_TOKENS, TWO_ROPES)
    found = both.decode(both.encode(rows, 32, Form.INT8), 32, Form.INT8)
    assert all(np.allclose(*pair, atol=1e-5) for pair in zip(found, rows, strict=True)), "alike before rotation"
