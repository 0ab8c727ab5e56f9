"""Gathers a corpus of permissively licensed Python files: filtered, without near duplicates, reproducible."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from efim_lab import documents
from efim_lab.documents import CodeDocument
from efim_lab.errors import WorkError
from efim_lab.training.corpus.filters import SeenLines, looks_written, without_notices
from efim_lab.training.corpus.sources import CorpusSource, RefusedDistribution

CAP = 8_000_000
# Whole packages by name, never learnt from: what is measured, and what settings are fitted on.
APART = {
    "heldout": frozenset({"asyncio", "cattrs", "jinja2", "networkx", "pygls"}),
    "tuning": frozenset({"click", "rich", "trio", "werkzeug"}),
}
_APART_OF_FILES = 20  # where none of them is there, one file in so many is put apart for each


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A distribution's line in the manifest; `bytes` counts the UTF-8 text that was kept."""

    name: str
    version: str
    licence: str
    learnt: bool
    files: int
    bytes: int


Gathered = dict[CorpusSource, list[CodeDocument]]


def gather(sources: Iterable[CorpusSource], warn: Callable[[str], None], cap: int = CAP) -> Gathered:
    """Read, filter and dedupe the sources' files, at most `cap` bytes of each source.

    What is put apart comes first, so that no copy of it is learnt from. Where a distribution is there in two
    versions, the second adds what is new in it. `warn` is told of files that cannot be read.
    """
    seen = SeenLines()
    ordered = sorted(sources, key=lambda source: _is_learnt(source))
    return {source: _capped(_documents(source, seen, warn), cap) for source in ordered}


def write(folder: Path, gathered: Gathered, refused: Iterable[RefusedDistribution]) -> Path:
    """Write train.jsonl, tuning.jsonl, heldout.jsonl and manifest.json; return the manifest's path."""
    if not any(gathered.values()):
        raise WorkError("no Python file passed the filters: name a folder with more code that people wrote")
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in _parts(gathered).items():
        documents.write_documents(folder / f"{name}.jsonl", sorted(part, key=lambda d: d.path))
    return _write_manifest(folder / "manifest.json", gathered, refused)


def read_manifest(path: Path) -> list[ManifestEntry]:
    """Read the distributions of a manifest.json that `write` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [ManifestEntry(**entry) for entry in content["distributions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkError(f"cannot read {path} ({error}): make it with `corpus` first") from error


def _is_learnt(source: CorpusSource) -> bool:
    return not any(source.name in names for names in APART.values())


def _parts(gathered: Gathered) -> dict[str, list[CodeDocument]]:
    """The documents by the file that they go to; a part that no package is named for gets some of all."""
    parts = {
        part: [d for source, found in gathered.items() if source.name in names for d in found]
        for part, names in APART.items()
    }
    learnt = [d for source, found in gathered.items() if _is_learnt(source) for d in found]
    learnt.sort(key=lambda d: _order(d.path))
    count = max(len(learnt) > 2, len(learnt) // _APART_OF_FILES)
    for part in parts.values():
        if not part:
            part += learnt[:count]
            del learnt[:count]
    return {**parts, "train": learnt}


def _write_manifest(path: Path, gathered: Gathered, refused: Iterable[RefusedDistribution]) -> Path:
    entries = [_entry(source, found) for source, found in gathered.items() if found]
    content = {
        "distributions": [asdict(e) for e in sorted(entries, key=lambda e: (e.name, e.version))],
        "refused": [asdict(r) for r in sorted(set(refused), key=lambda r: (r.name, r.version))],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")
    return path


def _entry(source: CorpusSource, found: list[CodeDocument]) -> ManifestEntry:
    size = sum(len(d.text.encode()) for d in found)
    return ManifestEntry(source.name, source.version, source.licence, _is_learnt(source), len(found), size)


def _documents(source: CorpusSource, seen: SeenLines, warn: Callable[[str], None]) -> Iterator[CodeDocument]:
    """Of near duplicates the largest file is kept."""
    texts = {name: text for name in source.files if (text := _read_text(source.root / name, warn))}
    for name in sorted(texts, key=lambda n: (-len(texts[n]), n)):
        if looks_written(texts[name]) and seen.add_if_new(texts[name]):
            yield CodeDocument(f"{source.name}-{source.version}/{name}", without_notices(texts[name]))


def _capped(found: Iterator[CodeDocument], cap: int) -> list[CodeDocument]:
    """Keep documents up to `cap` bytes, in an order that neither folder nor size decides."""
    kept: list[CodeDocument] = []
    for document in sorted(found, key=lambda d: _order(d.path)):
        cap -= len(document.text.encode())
        if cap < 0:
            break
        kept.append(document)
    return kept


def _order(path: str) -> bytes:
    return hashlib.blake2b(path.encode()).digest()


def _read_text(path: Path, warn: Callable[[str], None]) -> str:
    """Files that are gone, cannot be read or are not UTF-8 count as empty."""
    try:
        return path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    except OSError as error:
        warn(f"{path} is left out: {error.strerror}")
        return ""
