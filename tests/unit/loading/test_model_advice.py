"""Which model `efim-ls models` recommends, and what it says of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.commands.models.advice import FREE, LARGEST_ON_GPU, QUICK_KEY, QUICK_PLACE, recommended, speed
from efim_ls.commands.models.rows import ModelRow

MILLISECONDS = st.none() | st.floats(0.1, 1e5)
ROWS = st.builds(
    ModelRow,
    name=st.just("a"),
    setting=st.just("a"),
    current=st.booleans(),
    downloaded=st.booleans(),
    parameters=st.none() | st.integers(1, 40_000_000_000),
    licence=st.sampled_from([None, *FREE, "Llama 2"]),
    fits_gpu=st.sampled_from([(), ("fp16",)]),
    milliseconds=MILLISECONDS,
    cold_milliseconds=MILLISECONDS,
)


def row(milliseconds: float | None = None, cold: float | None = None, **fields: object) -> ModelRow:
    about = {"name": "a", "setting": "a", "current": False, "downloaded": True, **fields}
    return ModelRow(milliseconds=milliseconds, cold_milliseconds=cold, **about)  # pyright: ignore[reportArgumentType]


def is_for_everybody_and_quick(row: ModelRow) -> bool:
    key, place = row.milliseconds, row.cold_milliseconds
    quick = key is not None and key <= QUICK_KEY and (place is None or place <= QUICK_PLACE)
    if row.fits_gpu:
        quick = row.parameters is None or row.parameters <= LARGEST_ON_GPU
    return quick and (row.downloaded or row.licence in FREE)


@given(rows=st.lists(ROWS))
def test_the_largest_is_recommended_that_is_quick_and_can_be_had_by_all(rows: list[ModelRow]) -> None:
    possible = [each for each in rows if is_for_everybody_and_quick(each)]
    found = recommended(rows)
    assert (found is None) == (not possible)
    if found:
        assert found in possible and all((found.parameters or 0) >= (each.parameters or 0) for each in possible)


def test_of_two_that_are_as_large_the_one_on_this_machine_is_recommended() -> None:
    absent, here = (row(1.0, 9.0, parameters=7, downloaded=each, licence="MIT") for each in (False, True))
    assert recommended([absent, here]) is here


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (row(1.04, 410, measured=True), "1.0 ms a key, 410 ms at a new place"),
        (row(78, 3_960), "about 78 ms a key, 4.0 s at a new place"),
        (row(78, 23_000), "about 78 ms a key, 23 s at a new place: slow here"),
        (row(240, 900), "about 240 ms a key, 900 ms at a new place: slow here"),
        (row(5.0), "about 5.0 ms a key"),
        (row(fits_gpu=("fp16",)), "on the GPU"),
        (row(in_part="int4"), "with parts on disk: slow here"),
        (row(engine="http://127.0.0.1:8080"), "runs at http://127.0.0.1:8080"),
        (row(), "too large for this machine"),
        (row(problem="no markers"), ""),
    ],
)
def test_what_keys_take_is_said_in_words(model: ModelRow, said: str) -> None:
    assert speed(model) == said
