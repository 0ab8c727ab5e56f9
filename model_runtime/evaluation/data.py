"""Held-out code: a file that `train corpus` writes, or any folder of Python files."""

from __future__ import annotations

from pathlib import Path

from model_runtime.evaluation.errors import EvaluationError
from model_runtime.training import corpus
from model_runtime.training.corpus import Document
from model_runtime.training.errors import TrainingError

REMEDY = "make it with `efim-ls train corpus`"


def read(path: Path) -> list[Document]:
    """Read documents in a stable order; EvaluationError where there are none or the file is damaged."""
    documents = _folder(path) if path.is_dir() else _file(path)
    if not documents:
        raise EvaluationError(f"{path} has no code: name a heldout.jsonl or a folder of .py files")
    return documents


def _file(path: Path) -> list[Document]:
    if not path.is_file():
        raise EvaluationError(f"{path} is no file and no folder: check the path")
    try:
        documents = corpus.read(path)
    except TrainingError as error:
        raise EvaluationError(f"{path} is damaged ({error.__cause__}): {REMEDY}") from error
    if any(type(document.text) is not str for document in documents):
        raise EvaluationError(f"{path} is damaged (a text is none): {REMEDY}")
    return documents


def _folder(folder: Path) -> list[Document]:
    """Files in hidden folders, and such that are not UTF-8, are left out."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    found = ((name, _text(folder / name)) for name in names if not f"/{name}".count("/."))
    return [Document(name, text) for name, text in found if text]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
