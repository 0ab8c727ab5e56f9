"""Choosers over indexes in memory of a few files."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from efim_ls.settings import DEFAULTS
from efim_ls.workspace.database.origin import IndexOrigin
from efim_ls.workspace.excerpts.chooser import ExcerptChooser
from efim_ls.workspace.files.content import IndexedFile, content_of, digest_of
from efim_ls.workspace.files.discovery import SourceFile
from efim_ls.workspace.index_file import IndexFile
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptBudget

ROOT = "/project"
TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")
ROOMY = ExcerptBudget(1000, 1000, 1000)
LANGUAGES = {"py": "python", "ts": "typescript", "go": "go", "rs": "rust"}

Files = Mapping[str, str]  # texts by their paths in the project


def indexed(path: str, text: str) -> IndexedFile:
    """A file of the project as an index takes it."""
    language = LANGUAGES[path.rpartition(".")[2]]
    file = SourceFile(f"{ROOT}/{path}", len(text.encode()), 1, language)
    return IndexedFile(file, digest_of(text), content_of(text, language, TOKENIZER.encode_file(text), "passages"))


def make_chooser(files: Files, budget: ExcerptBudget = ROOMY, hidden: tuple[str, ...] = ()) -> ExcerptChooser:
    """Return a chooser over an index of files, of which those named in `hidden` may not be shown."""
    index = IndexFile(
        None, IndexOrigin((ROOT,), DEFAULTS), LanguageTokenizers(TOKENIZER), lambda _: None, keeps="passages"
    )
    index.put([indexed(path, text) for path, text in files.items()])
    secret = {f"{ROOT}/{path}" for path in hidden}
    return ExcerptChooser(index, [ROOT], TOKENIZER, budget, lambda path: path not in secret)


def finished(steps: Generator[None, None, tuple[Excerpt, ...]]) -> tuple[Excerpt, ...]:
    """Take all steps at once, and return the choice."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
