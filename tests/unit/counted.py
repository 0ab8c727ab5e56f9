"""Documents of random tokens, and what must be counted in them: by the n-grams' matches over all texts."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from model_runtime.counts import lookup
from model_runtime.counts.lookup import Followers
from model_runtime.counts.native import library
from model_runtime.counts.segment import LEAST, MOST, CountedDocument
from model_runtime.counts.snapshot import EMPTY, Counts, CountsView
from model_runtime.engine.ngrams import matches
from model_runtime.ids import Ids
from tests.compiled import require

WIDE = 70_000  # beyond what two bytes hold beside a break
unhurried = settings(max_examples=25)  # in several ways each
alphabets = st.sampled_from([(0, 1), (0, 1, 2), (0, 65_533, 65_534), (1, 65_535, WIDE), (0, 1, -1)])
texts = alphabets.flatmap(
    lambda tokens: st.one_of(
        st.lists(st.sampled_from(tokens), max_size=60),
        st.tuples(st.lists(st.sampled_from(tokens), max_size=6), st.integers(1, 12)).map(
            lambda pair: pair[0] * pair[1]
        ),
    )
)
names = st.sampled_from("abcdefg")
collections = st.dictionaries(names, texts, max_size=6)


def ids(tokens: list[int]) -> Ids:
    return np.array(tokens, dtype=np.int32)


def document(path: str, tokens: list[int]) -> CountedDocument:
    return CountedDocument(path, hashlib.blake2b(str(tokens).encode(), digest_size=16).digest(), ids(tokens))


def documents(by_path: dict[str, list[int]]) -> list[CountedDocument]:
    return [document(path, tokens) for path, tokens in by_path.items()]


def counts_of(by_path: dict[str, list[int]]) -> Counts:
    return EMPTY.with_changes((), documents(by_path))


def reference(by_path: dict[str, list[int]], history: list[int]) -> tuple[int, dict[tuple[int, int], int]]:
    """The least length that is counted, and the count of each (length, token)."""
    apart = [token for tokens in by_path.values() for token in (*tokens, -1)]
    places, lengths = matches(ids([*apart, *history]), MOST)
    inside = places < len(apart)
    places, lengths = places[inside], lengths[inside]
    sizes = {length: int((lengths >= length).sum()) for length in range(LEAST, MOST)}
    least = next((length for length, size in sizes.items() if size <= lookup.MOST_PLACES), MOST)
    found = zip(lengths.tolist(), (apart[place + 1] for place in places.tolist()), strict=True)
    return least, dict(sorted(Counter(each for each in found if each[0] >= least).items()))


def counted(followers: Followers) -> tuple[int, dict[tuple[int, int], int]]:
    keys = list(zip(followers.lengths.tolist(), followers.tokens.tolist(), strict=True))
    assert keys == sorted(set(keys))
    return followers.least, dict(zip(keys, followers.counts.tolist(), strict=True))


def assert_counts(view: CountsView, by_path: dict[str, list[int]], history: list[int]) -> None:
    least, expected = reference(by_path, history)
    found_least, found = counted(view.followers(ids(history)))
    assert found == expected
    assert found_least == least or not found
    draft = view.draft(ids(history), 5).tolist()
    assert bool(draft) == bool(expected)
    if draft:
        longest = max(length for length, _ in expected)
        token = max((count, -token) for (length, token), count in expected.items() if length == longest)[1]
        assert draft[0] == -token
        assert any(goes_on(tokens, history[-longest:] + draft) for tokens in by_path.values())
    for token in {token for _, token in expected}:
        said = view.places(ids(history), token, 10_000)
        lengths = Counter({length: count for (length, each), count in expected.items() if each == token})
        assert Counter(place.length for place in said) == lengths
        assert said == sorted(said, key=lambda place: (-place.length, place.path, place.offset))
        for path, offset, length in said:
            before = by_path[path][:offset]
            assert by_path[path][offset] == token
            assert before[len(before) - length :] == history[len(history) - length :]


def goes_on(tokens: list[int], part: list[int]) -> bool:
    return any(tokens[at : at + len(part)] == part for at in range(len(tokens)))


def require_counts() -> None:
    """Skip or fail a test of the compiled part."""
    found = library.library()
    require(found if isinstance(found, str) else None, set())
