"""Reads held-out code: a file written by `train corpus`, or any folder of files in a language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from efim_lab.gate.documents import CodeDocument, package_of, read_documents
from efim_lab.gate.errors import WorkError
from efim_ls.languages.table import language_of, name_of


@dataclass(frozen=True)
class HeldOutCode:
    """Where code lies that is measured, and which packages of it are; None for all."""

    path: Path
    packages: frozenset[str] | None = None

    def read(self, language: str = "python") -> list[CodeDocument]:
        """Read its documents as `read_held_out` does; raises WorkError if there are none of the packages."""
        documents = read_held_out(self.path, language)
        if self.packages is None:
            return documents
        if chosen := [each for each in documents if package_of(each) in self.packages]:
            return chosen
        names = ", ".join(sorted(self.packages))
        raise WorkError(f"{self.path} has no code of {names}: it needs a folder for each of these packages")


def read_held_out(path: Path, language: str = "python") -> list[CodeDocument]:
    """Read documents in a stable order; raises WorkError if there are none or the file is damaged."""
    documents = _folder(path, language) if path.is_dir() else read_documents(path)
    if not documents:
        raise WorkError(f"{path} has no code: name a heldout.jsonl or a folder of {name_of(language)} files")
    return documents


def _folder(folder: Path, language: str) -> list[CodeDocument]:
    """Read a folder's files in a language, without hidden folders and files that are not UTF-8."""
    paths = [path for path in folder.rglob("*.*") if language_of(path.name) == language and path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    found = ((name, _text(folder / name)) for name in names if not f"/{name}".count("/."))
    return [CodeDocument(name, text) for name, text in found if text]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
