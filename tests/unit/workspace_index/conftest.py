"""Files of a workspace, and indexes of them that say what they report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from efim_ls.settings import DEFAULTS
from efim_ls.workspace.database.origin import IndexOrigin
from efim_ls.workspace.files.content import IndexedFile, content_of, digest_of
from efim_ls.workspace.files.discovery import SourceFile
from efim_ls.workspace.index_file import IndexFile
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")
TOKENIZERS = LanguageTokenizers(TOKENIZER)
ORIGIN = IndexOrigin(("/project",), DEFAULTS)


def indexed(path: str, text: str, language: str = "python", *, private: bool = False) -> IndexedFile:
    """A file as a searchable index takes it, whether or not it is on this disk."""
    file = SourceFile(path, len(text.encode()), 1, language)
    content = content_of(text, language, TOKENIZER.encode_file(text), "passages")
    return IndexedFile(file, digest_of(text), content, private)


def has_name(index: IndexFile, name: str) -> bool:
    """Return whether a name stands in any file, defined or used."""
    return bool(index.similar([name], 1))


Open = Callable[[], IndexFile]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "repositories" / "index.sqlite3"


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def open_index(place: Path, reports: list[str]) -> Iterator[Open]:
    """Open the index at `place` to search it, as often as a test wants; all are closed at its end."""
    opened = list[IndexFile]()

    def make() -> IndexFile:
        opened.append(IndexFile(place, ORIGIN, TOKENIZERS, reports.append, keeps="passages"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
