"""Names of blocks: equal beginnings have equal names, and nothing else has."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kv_store.block import BLOCK_TOKENS, NAME_BYTES, chain, root, tag

ROOT = root(b"model")
rows = st.lists(st.integers(0, 3), max_size=5 * BLOCK_TOKENS)


def ids(tokens: list[int]) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


@given(rows, rows, rows)
def test_names_are_equal_exactly_as_far_as_whole_blocks_are(same: list[int], a: list[int], b: list[int]) -> None:
    first, second = same + a, same + b
    names, others = chain(ROOT, ids(first)), chain(ROOT, ids(second))
    equal = sum(
        first[: n * BLOCK_TOKENS] == second[: n * BLOCK_TOKENS] for n in range(1, min(len(names), len(others)) + 1)
    )
    assert [a == b for a, b in zip(names, others, strict=False)].count(True) == equal
    assert len({*names, *others}) == len(names) + len(others) - equal


@given(rows)
def test_there_is_a_name_for_each_whole_block(row: list[int]) -> None:
    names = chain(ROOT, ids(row))
    assert [len(name) for name in names] == [NAME_BYTES] * (len(row) // BLOCK_TOKENS)


@given(rows)
def test_a_chain_can_be_continued(row: list[int]) -> None:
    whole = chain(ROOT, ids(row))
    assert whole[:1] + chain(whole[0], ids(row[BLOCK_TOKENS:])) == whole if whole else True


def test_names_of_two_models_never_coincide() -> None:
    row = ids(list(range(64)))
    assert not {*chain(ROOT, row)} & {*chain(root(b"other"), row)}


def test_names_do_not_depend_on_the_machine() -> None:
    row = np.arange(16)
    assert chain(ROOT, row.astype("<i4"))[0].hex() == chain(ROOT, row.astype(">i4"))[0].hex()
    assert chain(ROOT, row.astype("<i4"))[0].hex() == "8d71edf059a09431b70e546d4f231726"


def test_tags_are_unique_and_never_0() -> None:
    uris = [f"file:///{n}.py" for n in range(1000)] + ["", "\ud800"]
    assert len({tag(uri) for uri in uris}) == len(uris)
    assert all(0 < tag(uri) < 1 << 64 for uri in uris)
