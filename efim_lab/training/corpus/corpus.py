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

CAP = 8_000_000  # bytes of each source
# Whole packages, never trained on: to measure with (heldout) and to fit settings to (tuning).
APART = {
    "heldout": frozenset({"asyncio", "cattrs", "jinja2", "networkx", "pygls"}),
    "tuning": frozenset({"click", "rich", "trio", "werkzeug"}),
}
_APART_OF_FILES = 20  # without any of these packages, one file in this many is set apart for each part


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A distribution in the manifest; `bytes` is the size of the text that was kept, in UTF-8."""

    name: str
    version: str
    licence: str
    learnt: bool
    files: int
    bytes: int


Gathered = dict[CorpusSource, list[CodeDocument]]


def gather(sources: Iterable[CorpusSource], warn: Callable[[str], None], cap: int = CAP) -> Gathered:
    """Read, filter and deduplicate the sources' files, at most `cap` bytes of each source.

    Packages set apart come first, so that no copy of them is trained on. Of a distribution's second version only
    what differs is added. `warn` is called with a message for each file that cannot be read.
    """
    seen = SeenLines()
    ordered = sorted(sources, key=lambda source: _is_learnt(source))
    return {source: _capped(_documents(source, seen, warn), cap) for source in ordered}


def write(folder: Path, gathered: Gathered, refused: Iterable[RefusedDistribution]) -> Path:
    """Write train.jsonl, tuning.jsonl, heldout.jsonl and manifest.json; return the manifest's path."""
    if not any(gathered.values()):
        raise WorkError("no Python file passed the filters: name a folder with more code, written by hand")
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in _parts(gathered).items():
        documents.write_documents(folder / f"{name}.jsonl", sorted(part, key=lambda d: d.path))
    return _write_manifest(folder / "manifest.json", gathered, refused)


def read_manifest(path: Path) -> list[ManifestEntry]:
    """Read the distributions from a manifest.json written by `write`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [ManifestEntry(**entry) for entry in content["distributions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkError(f"cannot read {path} ({error}): make it with `corpus` first") from error


def _is_learnt(source: CorpusSource) -> bool:
    return not any(source.name in names for names in APART.values())


def _parts(gathered: Gathered) -> dict[str, list[CodeDocument]]:
    """Group documents by the file they go to; a part none of whose packages are present gets files of all of them."""
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
    """Yield a source's documents; of near duplicates the largest is kept."""
    texts = {name: text for name in source.files if (text := _read_text(source.root / name, warn))}
    for name in sorted(texts, key=lambda n: (-len(texts[n]), n)):
        if looks_written(texts[name]) and seen.add_if_new(texts[name]):
            yield CodeDocument(f"{source.name}-{source.version}/{name}", without_notices(texts[name]))


def _capped(found: Iterator[CodeDocument], cap: int) -> list[CodeDocument]:
    """Keep up to `cap` bytes of documents, in an order independent of folder and size."""
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
    """Read a file; return an empty string if it is gone, cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    except OSError as error:
        warn(f"{path} is left out: {error.strerror}")
        return ""
