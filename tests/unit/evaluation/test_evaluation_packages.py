"""The memory of a document's package: which files it counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.package_counts import PackageCounts
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.counts.snapshot import CountedDocument, Counts, CountsView
from model_runtime.loading.checkpoint_reader import read_tokenizer
from model_runtime.prompt.tokenizer import Tokenizer

LINE = "total = count(items, "
DOCUMENTS = [
    CodeDocument(path, f"{LINE}{path[2]})\n") for path in ("p/a.py", "p/b.py", "p/c.py", "p/d.ts", "q/e.py", "f.py")
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return read_tokenizer(EMBEDDED, read_config(EMBEDDED))


def said(view: CountsView, tokenizer: Tokenizer) -> str:
    """What follows the line in the documents of a view, sorted."""
    return "".join(sorted(tokenizer.decode(view.followers(tokenizer.encode(LINE.rstrip())).tokens))).replace(" ", "")


def test_a_package_is_counted_without_the_document_itself_and_those_that_are_open(tokenizer: Tokenizer) -> None:
    memories = PackageCounts(tokenizer, DOCUMENTS)
    first, second = DOCUMENTS[:2]
    assert said(memories.beside(first), tokenizer) == "bc"
    assert said(memories.beside(first, [second]), tokenizer) == "c"
    assert said(memories.beside(DOCUMENTS[4]), tokenizer) == ""
    assert said(memories.beside(CodeDocument("p/new.ts", "")), tokenizer) == "d"


def test_a_package_is_counted_once(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    count = Counts.with_changes

    def counted(counts: Counts, removed: Sequence[str], added: Sequence[CountedDocument]) -> Counts:
        built.append(len(added))
        return count(counts, removed, added)

    monkeypatch.setattr(Counts, "with_changes", counted)
    memories = PackageCounts(tokenizer, DOCUMENTS)
    assert built == []
    views = [memories.beside(document, opened) for document in DOCUMENTS[:3] for opened in ((), DOCUMENTS[:2])]
    assert built == [3]
    assert views[1] == views[3] != views[0]


def test_a_document_is_counted_by_its_text(tokenizer: Tokenizer) -> None:
    one, other = (PackageCounts(tokenizer, [CodeDocument("p/a.py", text)]) for text in ("x = 1", "x = 2"))
    cursor = CodeDocument("p/b.py", "")
    assert one.beside(cursor) != other.beside(cursor)
    assert np.array_equal(one.beside(cursor).followers(tokenizer.encode("y")).tokens, [])
