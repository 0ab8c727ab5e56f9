"""Pieces of a sequence that others hold: equal, apart, as long as they can be, at any offset."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.ids import Ids
from model_runtime.shelves.composition.pieces import MovedPiece, find_pieces, window_hashes

SHORTEST = 4
few = st.lists(st.integers(0, 2), max_size=40)
sources = st.lists(few, max_size=3)


def ids(tokens: list[int]) -> Ids:
    return np.array(tokens, dtype=np.int32)


def occurs(window: list[int], tokens: list[int]) -> bool:
    return any(tokens[at : at + len(window)] == window for at in range(len(tokens) - len(window) + 1))


@given(wanted=few, held=sources)
def test_pieces_are_equal_in_order_and_apart(wanted: list[int], held: list[list[int]]) -> None:
    end = 0
    for piece in find_pieces(ids(wanted), [ids(each) for each in held], SHORTEST):
        source = held[piece.source]
        assert piece.length >= SHORTEST and piece.new >= end
        assert wanted[piece.new :][: piece.length] == source[piece.old :][: piece.length]
        assert piece.old + piece.length <= len(source)
        end = piece.new + piece.length


@given(wanted=few, held=sources)
def test_a_piece_cannot_be_longer_and_nothing_that_is_held_is_left_out(
    wanted: list[int], held: list[list[int]]
) -> None:
    pieces = find_pieces(ids(wanted), [ids(each) for each in held], SHORTEST)
    ends = [0, *(piece.new + piece.length for piece in pieces)]
    for piece, end in zip(pieces, ends, strict=False):
        source, after, before = held[piece.source], piece.new + piece.length, piece.new - 1
        assert wanted[after : after + 1] != source[piece.old + piece.length :][:1] or after == len(wanted)
        assert piece.new == end or piece.old == 0 or wanted[before] != source[piece.old - 1]
    for start, stop in zip(ends, [*(piece.new for piece in pieces), len(wanted)], strict=True):
        for at in range(start, stop - SHORTEST + 1):
            assert not any(occurs(wanted[at : at + SHORTEST], source) for source in held)


@given(
    before=st.lists(st.integers(0, 50), max_size=30),
    moved=st.lists(st.integers(100, 150), min_size=SHORTEST, max_size=30, unique=True),
    after=st.lists(st.integers(51, 99), max_size=30),
)
def test_a_moved_text_is_found_wherever_it_lies(before: list[int], moved: list[int], after: list[int]) -> None:
    pieces = find_pieces(ids(before + moved), [ids(moved + after)], SHORTEST)
    assert pieces == [MovedPiece(len(before), 0, len(moved))]


def test_of_equal_places_the_one_that_goes_on_is_taken() -> None:
    first, second = [1, 2, 3, 4], [5, 6, 7, 8]
    source = [*second, 0, *first, 9, *second]
    pieces = find_pieces(ids([*first, 10, *second]), [ids(source)], SHORTEST)
    assert pieces == [MovedPiece(0, 5, 4), MovedPiece(5, 10, 4)]


def test_hashes_of_windows_say_whether_windows_are_equal() -> None:
    tokens = np.random.default_rng(0).integers(0, 50_000, 400).astype(np.int32)
    hashes = window_hashes(np.concatenate((tokens, tokens[3:300])), 16)
    assert np.array_equal(hashes[3 : 300 - 15], hashes[400 : 400 + 282])
    assert len(set(hashes[:385].tolist())) == 385
    assert len(window_hashes(tokens[:15], 16)) == 0
