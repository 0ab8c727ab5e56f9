"""Files of code as data: what a corpus is made of and what models are measured on."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from efim_lab.errors import WorkError

REMEDY = "make it with `efim-ls train corpus`"


@dataclass(frozen=True, slots=True)
class CodeDocument:
    r"""One file of code: `path` is relative to where it was found, `text` of a corpus has \n line endings."""

    path: str
    text: str


def read_documents(path: Path) -> list[CodeDocument]:
    """Read a .jsonl file that `write_documents` wrote; WorkError where it is missing or damaged."""
    try:
        with path.open(encoding="utf-8") as lines:
            documents = [CodeDocument(**json.loads(line)) for line in lines]
    except OSError as error:
        raise WorkError(f"{path} cannot be read ({error.strerror}): {REMEDY}, or check the path") from error
    except (ValueError, TypeError) as error:
        raise WorkError(f"{path} is damaged ({error}): {REMEDY}") from error
    if any(type(document.text) is not str for document in documents):
        raise WorkError(f"{path} is damaged (a text is none): {REMEDY}")
    return documents


def write_documents(path: Path, documents: Iterable[CodeDocument]) -> None:
    """Write a .jsonl file, one document a line."""
    lines = [json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in documents]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
