"""Code files as data, to train on and to measure with."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from efim_lab.gate.errors import WorkError
from efim_ls.languages.headers import header_language
from efim_ls.languages.table import family_of, language_of
from model_runtime.regular_files import check_regular

REMEDY = "make it with `python -m efim_lab train corpus`"


@dataclass(frozen=True)
class CodeDocument:
    r"""A code file; `path` is relative to where it was found. In a corpus, lines of `text` end with \n."""

    path: str
    text: str

    @cached_property
    def language(self) -> str:
        """LSP's name of the file's language, as the server finds it."""
        return header_language(language_of(self.path), self.path, self.text)

    @cached_property
    def kin(self) -> tuple[str, str]:
        """The file's package and the family of its language: files that share both know each other."""
        return package_of(self), family_of(self.language)


def package_of(document: CodeDocument) -> str:
    """Return the first folder of a document's path, empty if it lies in none."""
    first, separator, _ = document.path.partition("/")
    return first if separator else ""


def read_documents(path: Path) -> list[CodeDocument]:
    """Read a .jsonl file of documents; raises WorkError if it is missing or damaged."""
    try:
        check_regular(path)
        with path.open(encoding="utf-8") as lines:
            documents = [CodeDocument(**json.loads(line)) for line in lines]
    except OSError as error:
        raise WorkError(f"{path} cannot be read ({error.strerror or error}): {REMEDY}, or check the path") from error
    except (ValueError, TypeError) as error:
        raise WorkError(f"{path} is damaged ({error}): {REMEDY}") from error
    if any(type(document.text) is not str for document in documents):
        raise WorkError(f"{path} is damaged (a text is not a string): {REMEDY}")
    return documents


def write_documents(path: Path, documents: Iterable[CodeDocument]) -> None:
    """Write a .jsonl file, one document per line."""
    lines = [json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in documents]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
