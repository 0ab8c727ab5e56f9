"""What lies on a team's server: it comes back as it was, or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_store.block import Block
from kv_store.shared.wire import Sealer
from tests.unit.kv_blocks import block_of

KEY = "0123456789abcdef" * 4
ENCRYPT = pytest.mark.parametrize("encrypt", [False, True])
SIZES = st.integers(0, 80)
PRINTABLE = st.characters(exclude_categories=("C", "Z"), include_characters=" ")


def content(block: Block) -> tuple[object, ...]:
    return block.name, block.parent, block.document, block.form, block.approximate, block.data.tobytes()


@given(
    key=st.text(PRINTABLE, min_size=32),
    salt=st.text(PRINTABLE),
    encrypt=st.booleans(),
    place=st.integers(0, 2),
    size=SIZES,
    form=st.integers(0, 65535),
    approximate=st.booleans(),
)
def test_a_block_comes_back_without_its_document(
    key: str, salt: str, encrypt: bool, place: int, size: int, form: int, approximate: bool
) -> None:
    block = replace(block_of(1, place, size), form=form, approximate=approximate)
    value = Sealer(key, salt, encrypt).seal(block)
    for reads_encrypted in (False, True):
        opened = Sealer(key, salt, reads_encrypted).open(block.name, value)
        assert opened and content(opened) == content(replace(block, document=0))


@given(encrypt=st.booleans(), size=SIZES, flipped=st.floats(0, 1, exclude_max=True))
def test_a_value_with_a_flipped_bit_is_none(encrypt: bool, size: int, flipped: float) -> None:
    sealer, block = Sealer(KEY, "", encrypt), block_of(1, 1, size)
    value = bytearray(sealer.seal(block))
    bit = int(flipped * 8 * len(value))
    value[bit // 8] ^= 1 << bit % 8
    assert sealer.open(block.name, bytes(value)) is None


@ENCRYPT
def test_a_value_that_is_cut_or_goes_on_is_none(encrypt: bool) -> None:
    sealer, block = Sealer(KEY, "", encrypt), block_of(1, 1)
    value = sealer.seal(block)
    assert all(sealer.open(block.name, value[:end]) is None for end in range(len(value)))
    assert sealer.open(block.name, value + b"\0") is None
    assert sealer.open(block.name, b"") is None


@given(st.binary(max_size=200))
def test_what_others_wrote_is_none(value: bytes) -> None:
    assert Sealer(KEY, "", True).open(block_of(1, 1).name, value) is None


@ENCRYPT
def test_a_value_under_another_name_is_none(encrypt: bool) -> None:
    sealer, block, other = Sealer(KEY, "", encrypt), block_of(1, 1), block_of(1, 2)
    assert sealer.open(other.name, sealer.seal(block)) is None


@ENCRYPT
@pytest.mark.parametrize(("key", "salt"), [(KEY[1:] + "f", ""), (KEY, "2026"), (KEY.upper(), "")])
def test_another_key_or_salt_sees_nothing(encrypt: bool, key: str, salt: str) -> None:
    ours, theirs, block = Sealer(KEY, "", encrypt), Sealer(key, salt, encrypt), block_of(1, 1)
    assert ours.team != theirs.team and ours.name(block.name) != theirs.name(block.name)
    assert theirs.open(block.name, ours.seal(block)) is None


@ENCRYPT
def test_nothing_on_the_server_says_which_text_it_is_of(encrypt: bool) -> None:
    """Neither the block's name nor its parent's, which are hashes of text, nor the tag, a hash of a path."""
    sealer, block = Sealer(KEY, "", encrypt), block_of(1, 1)
    stored = sealer.seal(block)
    for tag in (block.name, block.parent, block.document.to_bytes(8, "little"), block.document.to_bytes(8, "big")):
        assert tag not in stored and tag.hex() not in sealer.name(block.name)
    assert (block.data.tobytes() in stored) is not encrypt


def test_an_encrypted_block_looks_different_each_time() -> None:
    sealer, block = Sealer(KEY, "", True), block_of(1, 1)
    first, second = sealer.seal(block), sealer.seal(block)
    assert first != second and len(first) == len(second)
    assert np.array_equal(block.data, block_of(1, 1).data)
