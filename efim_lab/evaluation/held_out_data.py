"""Reads held-out code: a file written by `train corpus`, or any folder of Python files."""

from __future__ import annotations

from pathlib import Path

from efim_lab.documents import CodeDocument, read_documents
from efim_lab.errors import WorkError


def read_held_out(path: Path) -> list[CodeDocument]:
    """Read documents in a stable order; raises WorkError if there are none or the file is damaged."""
    documents = _folder(path) if path.is_dir() else read_documents(path)
    if not documents:
        raise WorkError(f"{path} has no code: name a heldout.jsonl or a folder of .py files")
    return documents


def _folder(folder: Path) -> list[CodeDocument]:
    """Read a folder's .py files, without hidden folders and files that are not UTF-8."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    found = ((name, _text(folder / name)) for name in names if not f"/{name}".count("/."))
    return [CodeDocument(name, text) for name, text in found if text]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
