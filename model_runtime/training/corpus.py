"""Gathers a corpus of permissively licensed Python files: filtered, without near duplicates, reproducible."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from model_runtime.training.errors import TrainingError
from model_runtime.training.filters import SeenLines, looks_written
from model_runtime.training.sources import Refused, Source

CAP = 8_000_000
HELD_OUT = frozenset({"asyncio", "cattrs", "jinja2", "networkx", "pygls"})


@dataclass(frozen=True, slots=True)
class Document:
    r"""One Python file: `path` begins with its distribution's name, `text` has \n line endings."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A distribution's line in the manifest; `bytes` counts the UTF-8 text that was kept."""

    name: str
    version: str
    licence: str
    held_out: bool
    files: int
    bytes: int


def gather(sources: Iterable[Source], cap: int = CAP) -> dict[Source, list[Document]]:
    """Read, filter and dedupe the sources' files, at most `cap` bytes of each source.

    Held-out ones come first, so that no copy of them is learnt from. Where a distribution is there in two
    versions, the second adds what is new in it.
    """
    seen = SeenLines()
    ordered = sorted(sources, key=lambda source: source.name not in HELD_OUT)
    return {source: _capped(_documents(source, seen), cap) for source in ordered}


def write(folder: Path, gathered: dict[Source, list[Document]], refused: Iterable[Refused]) -> Path:
    """Write train.jsonl, heldout.jsonl and manifest.json, and return the manifest's path."""
    if not any(gathered.values()):
        raise TrainingError("no Python file passed the filters: name a standard library or site-packages folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, held_out in (("train", False), ("heldout", True)):
        part = [d for source, found in gathered.items() if (source.name in HELD_OUT) == held_out for d in found]
        lines = [json.dumps(asdict(d), ensure_ascii=False) + "\n" for d in sorted(part, key=lambda d: d.path)]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8", newline="\n")
    return _write_manifest(folder / "manifest.json", gathered, refused)


def read(path: Path) -> list[Document]:
    """Read a .jsonl file that `write` wrote."""
    try:
        with path.open(encoding="utf-8") as lines:
            return [Document(**json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"cannot read the corpus {path} ({error}): make it with `corpus` first") from error


def read_manifest(path: Path) -> list[Entry]:
    """Read the distributions of a manifest.json that `write` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [Entry(**entry) for entry in content["distributions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"cannot read {path} ({error}): make it with `corpus` first") from error


def _write_manifest(path: Path, gathered: dict[Source, list[Document]], refused: Iterable[Refused]) -> Path:
    entries = [_entry(source, found) for source, found in gathered.items() if found]
    content = {
        "distributions": [asdict(e) for e in sorted(entries, key=lambda e: (e.name, e.version))],
        "refused": [asdict(r) for r in sorted(set(refused), key=lambda r: (r.name, r.version))],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")
    return path


def _entry(source: Source, found: list[Document]) -> Entry:
    size = sum(len(d.text.encode()) for d in found)
    return Entry(source.name, source.version, source.licence, source.name in HELD_OUT, len(found), size)


def _documents(source: Source, seen: SeenLines) -> Iterator[Document]:
    """Of near duplicates the largest file is kept."""
    texts = {name: text for name in source.files if (text := _read_text(source.root / name))}
    for name in sorted(texts, key=lambda n: (-len(texts[n]), n)):
        if looks_written(texts[name]) and seen.add_if_new(texts[name]):
            yield Document(f"{source.name}-{source.version}/{name}", texts[name])


def _capped(documents: Iterator[Document], cap: int) -> list[Document]:
    """Keep documents up to `cap` bytes, in an order that neither folder nor size decides."""
    kept: list[Document] = []
    for document in sorted(documents, key=lambda d: hashlib.blake2b(d.path.encode()).digest()):
        cap -= len(document.text.encode())
        if cap < 0:
            break
        kept.append(document)
    return kept


def _read_text(path: Path) -> str:
    """Files that are gone or not UTF-8 count as empty."""
    try:
        return path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError):
        return ""
