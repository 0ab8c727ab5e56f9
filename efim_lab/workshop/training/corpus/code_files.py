"""Collects code files of any language from a folder, as documents to train on."""

from collections.abc import Iterator
from pathlib import Path

from efim_lab.gate import documents
from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus.filters import SeenLines, looks_written

CORPUS = "train.jsonl"  # in a folder written by `corpus`
CODE_SUFFIXES = frozenset(  # suffixes of code files
    """
    adb ads asm awk bash bat c cc clj cljs cmake cpp cr cs css cu cuh cxx d dart el elm erl ex exs f90 fs fsx gd glsl
    go gradle graphql groovy h hcl hh hpp hrl hs html hxx inl ipp java jl js jsx kt kts less lisp lua m mjs ml mli mm
    nim nix pas php pl pm proto ps1 py pyi r rb rkt rs sass scala scm scss sh sol sql sv svelte swift tcl tf toml ts
    tsx v vb vhd vim vue wgsl xml yaml yml zig zsh
    """.split()  # noqa: SIM905 - as a list it would be a page
)
_LARGEST = 1 << 20  # bytes; `looks_written` refuses smaller files already
_OTHERS = frozenset({"node_modules", "site-packages", "build", "dist", "target", "vendor", "__pycache__"})


def write_code(data: Path, target: Path) -> None:
    """Write the documents to train on: a corpus' documents, or a folder's hand-written files without duplicates."""
    found = documents.read_documents(data / CORPUS) if (data / CORPUS).exists() else list(gather_code(data))
    if not any(document.text.strip() for document in found):
        raise WorkError(f"{data} has no hand-written code: name a folder with code, or one written by `corpus`")
    documents.write_documents(target, found)


def gather_code(folder: Path) -> Iterator[CodeDocument]:
    """Read a folder's code, without hidden folders, generated files and near duplicates."""
    if not folder.is_dir():
        raise WorkError(f"{folder} is not a folder: name one with code, or one written by `corpus`")
    seen = SeenLines()
    for path in sorted(path for path in folder.rglob("*") if _wanted(path.relative_to(folder))):
        text = _text(path)
        if looks_written(text) and seen.add_if_new(text):
            yield CodeDocument(path.relative_to(folder).as_posix(), text)


def _wanted(path: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.parts)
    return path.suffix[1:].lower() in CODE_SUFFIXES and not hidden and _OTHERS.isdisjoint(path.parts)


def _text(path: Path) -> str:
    """Read a file; return an empty string if it is no regular file, too large, unreadable or not UTF-8."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError):
        return ""
