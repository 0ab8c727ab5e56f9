"""Counts over a repository, compiled and in numpy, against the n-grams' matches over all texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model_runtime.counts import changes as change
from model_runtime.counts import lookup
from model_runtime.counts.native import library
from model_runtime.counts.segment import LEAST, MOST, build_segment
from model_runtime.counts.snapshot import EMPTY
from tests.unit.counted import (
    WIDE,
    assert_counts,
    collections,
    counted,
    counts_of,
    document,
    documents,
    ids,
    names,
    require_counts,
    texts,
    unhurried,
)


@pytest.fixture(autouse=True, params=[(3, 0), (1024, 0), (1024, change.QUICK)], ids=str)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths with more matches than a few are left out, or hardly any; segments stay, or join a change."""
    for (module, name), limit in zip(((lookup, "MOST_PLACES"), (change, "QUICK")), request.param, strict=True):
        monkeypatch.setattr(module, name, limit)


@pytest.fixture(autouse=True, params=["compiled", "in numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled part, and what stands in for it."""
    if request.param == "compiled":
        require_counts()
    else:
        monkeypatch.setattr(library, "library", lambda: "switched off")


@unhurried
@given(collections, texts)
@example({"a": [0] * 40}, [0] * 20)
@example({"a": [0, 1, 0, 1]}, [1, 0, 1, 0])
@example({"a": [0, 1], "b": [0, 0, 0], "c": []}, [0, 0, 0])
@example({"a": [1, 1, 1, 1]}, [65_535, 1, 1, 1])
@example({"a": [WIDE, 1, 65_535, 1], "b": [1, 65_535, 1, WIDE]}, [WIDE, 1, 65_535])
def test_counts_are_those_of_matches_over_all_texts(by_path: dict[str, list[int]], history: list[int]) -> None:
    for end in (history, *(tokens[: len(tokens) // 2] for tokens in by_path.values())):
        assert_counts(counts_of(by_path).without(()), by_path, end)


changes = st.one_of(
    st.tuples(st.just("change"), st.sets(names, max_size=3), st.dictionaries(names, texts, max_size=3)),
    st.tuples(st.just("merge"), st.just(set[str]()), st.just(dict[str, list[int]]())),
)


@unhurried
@given(collections, st.lists(changes, max_size=8), st.sets(names, max_size=3), texts, st.booleans())
@example({"a": [0] * 9, "b": [1] * 9}, [("change", {"a"}, {})], {"b"}, [0] * 9, False)
@example(
    {"a": [0, 1] * 9, "b": [1] * 5}, [("change", set(), {"c": [0] * 5}), ("merge", set(), {})], set(), [0] * 9, True
)
def test_changes_merges_and_masks_count_as_the_same_documents_read_at_once(
    by_path: dict[str, list[int]],
    steps: list[tuple[str, set[str], dict[str, list[int]]]],
    masked: set[str],
    history: list[int],
    apart: bool,
) -> None:
    counts = counts_of(by_path)
    if apart:
        counts = EMPTY
        for path in reversed(by_path):
            counts = counts.with_changes((), [document(path, by_path[path])])
    for step, removed, added in steps:
        if step == "merge":
            counts = counts.merged()
            continue
        counts.without(masked).followers(ids(history))  # what was asked before shows nowhere
        by_path = {path: tokens for path, tokens in by_path.items() if path not in removed} | added
        counts = counts.with_changes(removed, documents(added))
    fresh = counts_of(by_path)
    assert counts.version == fresh.version
    assert counts.paths == fresh.paths == {each.path: each.digest for each in documents(by_path)}
    assert counts.tokens == fresh.tokens == sum(map(len, by_path.values()))
    left = {path: tokens for path, tokens in by_path.items() if path not in masked}
    view = counts.without(masked)
    assert view == counts_of(left).without(())
    assert hash(view) == hash(counts_of(left).without(()))
    assert_counts(view, left, history)


@unhurried
@given(collections, st.sets(names, max_size=2), st.lists(st.integers(0, 3), min_size=1, max_size=4))
@example({"a": [0, 1, 0, 1, 2], "b": [1, 0, 1, 3]}, {"b"}, [0, 1])
def test_neighbours_are_those_of_tokens_in_a_row(
    by_path: dict[str, list[int]], masked: set[str], row: list[int]
) -> None:
    found = sorted(counts_of(by_path).without(masked).neighbours(ids(row)))
    size = len(row)
    assert found == sorted(
        ([-1, *said][at], said[at + size])
        for path, said in by_path.items()
        for at in range(len(said) - size)
        if path not in masked and said[at : at + size] == row and said[at + size] >= 0
    )


def test_the_same_text_counts_under_each_of_its_paths() -> None:
    counts = counts_of({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]})
    assert counted(counts.without(()).followers(ids([1, 2, 3]))) == (LEAST, {(3, 4): 2})
    assert counted(counts.without("a").followers(ids([1, 2, 3]))) == (LEAST, {(3, 4): 1})


def test_versions_tell_documents_apart() -> None:
    one, other = document("a", [1]), document("a", [2])
    assert counts_of({}).version == EMPTY.version == 0
    versions = {EMPTY.with_changes((), added).version for added in ([one], [other], [one._replace(path="b")])}
    assert len(versions) == 3
    assert EMPTY.with_changes((), [one]).without(["a"]) == EMPTY.without(())
    assert EMPTY.with_changes((), [one]).without(["b"]) != EMPTY.without(())


def test_a_change_that_changes_nothing_is_the_same_memory() -> None:
    counts = counts_of({"a": [1, 2, 3, 4]})
    assert counts.with_changes(["b"], [document("a", [1, 2, 3, 4])]) is counts
    assert counts.with_changes(["a"], [document("a", [1, 2, 3, 4])]) is counts


def test_segments_stay_few_while_small_changes_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "QUICK", 2_000)
    rng = np.random.default_rng(0)
    by_path = {str(n): rng.integers(0, 9, 200).tolist() for n in range(64)}
    counts = counts_of(by_path)
    for n in range(64):
        by_path[str(n % 28)] = rng.integers(0, 9, 200).tolist()
        counts = counts.with_changes((), [document(str(n % 28), by_path[str(n % 28)])])
        assert len(counts.without(()).parts) <= 12
    assert counts.needs_merge
    merged = counts.merged()
    assert not merged.needs_merge
    assert len(merged.without(()).parts) == 1
    assert merged.bytes < counts.bytes
    for end in by_path.values():
        assert_counts(merged.without(()), by_path, end[:50])


@pytest.mark.parametrize("widest, most", [(9_000, 5.2), (WIDE, 6.2)])
def test_a_token_takes_at_most_six_bytes(widest: int, most: float) -> None:
    rng = np.random.default_rng(0)
    counts = counts_of({str(n): [*rng.integers(0, 9_000, 2_000).tolist(), widest] for n in range(5)})
    assert counts.bytes / counts.tokens < most


def test_a_match_of_the_greatest_length_is_counted_however_often_it_stands() -> None:
    tokens = [*range(20), 7] * 2_000
    found = counted(counts_of({"a": tokens}).without(()).followers(ids(list(range(20)))))
    assert found == (MOST, {(MOST, 7): 2_000})


def test_a_document_comes_back_as_it_was_given() -> None:
    given = [document("a", [1, -1, 65_534]), document("b", []), document("c", [65_535, WIDE, -1])]
    for some in (given, given[:2]):
        segment = build_segment(some)
        for number, each in enumerate(some):
            back = segment.document(number)
            assert (back.path, back.digest, back.ids.tolist()) == (each.path, each.digest, each.ids.tolist())


def test_many_segments_have_room() -> None:
    by_path = {str(n): [1, 2, 3, n, n + 1] for n in range(150)}
    counts = EMPTY
    for path in by_path:
        counts = counts.with_changes((), [document(path, by_path[path])])
    left = {path: by_path[path] for path in by_path if int(path) >= 100}
    assert_counts(counts.without([str(n) for n in range(100)]), left, [1, 2, 3])


@pytest.mark.parametrize("count", [300, 5_000])
def test_many_followers_have_room(count: int) -> None:
    tokens = [token for n in range(count) for token in (*range(20), n)]
    found = counted(counts_of({"a": tokens}).without(()).followers(ids(list(range(20)))))
    assert found[1] == {(MOST, n): 1 for n in range(count)}
