"""The memory's compiled part: it says what numpy says, and which of them counts is logged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model_runtime.counts import lookup
from model_runtime.counts.native import library
from tests.unit.counted import collections, counts_of, ids, names, require_counts, texts, unhurried


def said(by_path: dict[str, list[int]], history: list[int], masked: set[str], most: int) -> list[object]:
    """The order of the places, and all that a view answers."""
    view, end = counts_of(by_path).without(masked), ids(history)
    followers = view.followers(end)
    orders = [part.segment.packed.tolist() for part in view.parts]
    return [orders, [each.tolist() for each in followers[:3]], followers.least, view.draft(end, most).tolist()]


@unhurried
@given(collections, texts, st.sets(names, max_size=2), st.integers(1, 70), st.sampled_from([3, 1024]))
@example({"a": [0, 1, 2] * 60}, [0, 1, 2] * 6, set(), 70, 3)
@example({str(n): [0, 1, 2, n] * 3 for n in range(90)}, [0, 1, 2], {"1"}, 3, 1024)
def test_the_compiled_part_and_numpy_say_the_same(
    by_path: dict[str, list[int]], history: list[int], masked: set[str], most: int, most_places: int
) -> None:
    require_counts()
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(lookup, "MOST_PLACES", most_places)
        compiled = said(by_path, history, masked, most)
        changed.setattr(library, "library", lambda: "switched off")
        assert said(by_path, history, masked, most) == compiled


def test_the_way_that_counts_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    require_counts()
    with caplog.at_level("INFO", library.__name__):
        library.library.__wrapped__()
    assert caplog.messages == ["The repository is counted by compiled code"]


def test_a_part_that_was_not_compiled_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "PATH", tmp_path / "_counts.so")
    reason = library.library.__wrapped__()
    assert isinstance(reason, str)
    assert "was not built: install efim-ls again" in reason
    assert caplog.messages == [f"The repository is counted in numpy, which is slower: {reason}"]
