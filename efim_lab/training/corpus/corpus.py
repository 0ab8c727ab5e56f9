"""Gathers a corpus of permissively licensed Python files: filtered, without near duplicates, reproducible."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from efim_lab import documents
from efim_lab.documents import CodeDocument
from efim_lab.errors import WorkError
from efim_lab.training.corpus.cleanup import clean
from efim_lab.training.corpus.examples import FOLDERS, ExampleCollector
from efim_lab.training.corpus.filters import SeenLines, looks_written, without_notices
from efim_lab.training.corpus.repetition import without_repetition
from efim_lab.training.corpus.sources import CorpusSource, RefusedDistribution
from efim_lab.training.corpus.splits import APART, is_learnt

CAP = 10_000_000  # bytes of each source: the whole standard library, a part of the few larger ones
EXAMPLE_COPIES = 2  # of each example in the text to train on: short idiomatic programs are rare in libraries
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


def gather(
    sources: Iterable[CorpusSource],
    warn: Callable[[str], None],
    cap: int = CAP,
    progress: Callable[[str], None] = lambda line: None,
) -> Gathered:
    """Read, filter and deduplicate the sources' files, at most `cap` bytes of each source.

    Packages set apart come first, so that no copy of them is trained on. Of a distribution's second version only
    what differs is added. `warn` is called with a message for each file that cannot be read, `progress` with a line
    for each source.
    """
    seen = SeenLines()
    gathered: Gathered = {}
    for source in sorted(sources, key=lambda source: (is_learnt(source.name), source.name, source.version)):
        kept = _capped(_documents(source, seen, warn), cap)
        gathered[source] = kept
        progress(f"{source.name} {source.version}: {len(kept)} files, {_size(kept) / 1e6:.1f} MB")
    return gathered


def write(folder: Path, gathered: Gathered, refused: Iterable[RefusedDistribution]) -> Path:
    """Write train.jsonl, tuning.jsonl, heldout.jsonl and manifest.json; return the manifest's path.

    Only the text to train on is cleaned. The other parts measure how files are completed as their authors left them:
    they lose the notices at their start, nothing else.
    """
    if not any(gathered.values()):
        raise WorkError("no Python file passed the filters: name a folder with more code, written by hand")
    parts = {
        name: _changed(part, clean if name == "train" else without_notices) for name, part in _parts(gathered).items()
    }
    parts["train"] = without_repetition(each for each in parts["train"] if looks_written(each.text))
    written = [document for part in parts.values() for document in part]
    examples = _examples(parts["train"])
    content = {
        "distributions": _entries(gathered, written),
        "examples": {"documents": len(examples), "bytes": _size(examples), "copies": EXAMPLE_COPIES},
        "refused": [asdict(r) for r in sorted(set(refused), key=lambda r: (r.name, r.version))],
    }
    parts["train"] = sorted(_with_copies(parts["train"], examples), key=lambda d: d.path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        documents.write_documents(folder / f"{name}.jsonl", part)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")
    return manifest


def read_manifest(path: Path) -> list[ManifestEntry]:
    """Read the distributions from a manifest.json written by `write`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [ManifestEntry(**entry) for entry in content["distributions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkError(f"cannot read {path} ({error}): make it with `corpus` first") from error


def _parts(gathered: Gathered) -> dict[str, list[CodeDocument]]:
    """Group documents by the file they go to; a part none of whose packages are present gets files of all of them."""
    parts = {
        part: [d for source, found in gathered.items() if source.name in names for d in found]
        for part, names in APART.items()
    }
    learnt = [d for source, found in gathered.items() if is_learnt(source.name) for d in found]
    learnt.sort(key=lambda d: _order(d.path))
    count = max(len(learnt) > 2, len(learnt) // _APART_OF_FILES)
    for part in parts.values():
        if not part:
            part += learnt[:count]
            del learnt[:count]
    return {**parts, "train": learnt}


def _changed(found: list[CodeDocument], change: Callable[[str], str]) -> list[CodeDocument]:
    """Return the documents in order of path, with changed texts."""
    changed = (CodeDocument(document.path, change(document.text)) for document in found)
    return sorted(changed, key=lambda d: d.path)


def _examples(learnt: list[CodeDocument]) -> list[CodeDocument]:
    """Return the examples in docstrings, one document for each file that has enough, and the files in FOLDERS."""
    collector, seen = ExampleCollector(), SeenLines()
    found: list[CodeDocument] = []
    for document in learnt:
        top, _, name = document.path.partition("/")
        if not FOLDERS.isdisjoint(name.split("/")[:-1]):
            found.append(document)
        elif (program := collector.program(document.text)) and seen.add_if_new(program):
            found.append(CodeDocument(f"{top}/examples/{name}", program))
    return found


def _with_copies(learnt: list[CodeDocument], examples: list[CodeDocument]) -> Iterator[CodeDocument]:
    """Yield all documents, and each example EXAMPLE_COPIES times, with the number of the copy in its path."""
    paths = {document.path for document in learnt}
    yield from learnt
    for document in examples:
        for copy in range(1, EXAMPLE_COPIES + 1):
            path = document.path if copy == 1 else f"{document.path}.{copy}"
            if path not in paths:
                yield CodeDocument(path, document.text)


def _entries(gathered: Gathered, written: list[CodeDocument]) -> list[dict[str, object]]:
    """Describe the distributions in the manifest, in order of name."""
    by_path = {document.path: document for document in written}
    entries: list[ManifestEntry] = []
    for source, found in gathered.items():
        if kept := [by_path[document.path] for document in found if document.path in by_path]:
            learnt = is_learnt(source.name)
            entries.append(ManifestEntry(source.name, source.version, source.licence, learnt, len(kept), _size(kept)))
    return [asdict(entry) for entry in sorted(entries, key=lambda e: (e.name, e.version))]


def _size(found: Iterable[CodeDocument]) -> int:
    """Return the size of documents in bytes of UTF-8."""
    return sum(len(document.text.encode()) for document in found)


def _documents(source: CorpusSource, seen: SeenLines, warn: Callable[[str], None]) -> Iterator[CodeDocument]:
    """Yield a source's documents; of near duplicates the largest is kept."""
    texts = {name: text for name in source.files if (text := _read_text(source.root / name, warn))}
    for name in sorted(texts, key=lambda n: (-len(texts[n]), n)):
        if looks_written(texts[name]) and seen.add_if_new(texts[name]):
            yield CodeDocument(f"{source.name}-{source.version}/{name}", texts[name])


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
