"""Gathers a corpus of permissively licensed code files: filtered, without near duplicates, reproducible."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple, get_args

from efim_lab.gate import documents
from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus.examples import examples_in
from efim_lab.workshop.training.corpus.filters import SeenLines
from efim_lab.workshop.training.corpus.language import (
    CorpusLanguage,
    CorpusSource,
    Part,
    RefusedPackage,
    folder_of,
)

MANIFEST = "manifest.json"
CAP = 10_000_000  # bytes of each source: the whole standard library, a part of the few larger ones
EXAMPLE_COPIES = 2  # of each example in the text to train on: short idiomatic programs are rare in libraries
_MOST_COPIES = 4  # of a small corpus that is joined with larger ones
_APART_OF_FILES = 20  # without any of these packages, one file in this many is set apart for each part
_APART: tuple[Part, Part] = ("heldout", "tuning")


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A package in the manifest; `part` says where in the corpus it went, `bytes` is its text's size in UTF-8."""

    name: str
    version: str
    licence: str
    part: Part
    files: int
    bytes: int

    @property
    def learnt(self) -> bool:
        """Whether it was trained on."""
        return self.part == "train"

    @property
    def folder(self) -> str:
        """Where its documents lie in a corpus."""
        return folder_of(self.name, self.version)


class Manifest(NamedTuple):
    """What a corpus was gathered from; `languages` are their names in `languages.LANGUAGES`."""

    languages: tuple[str, ...]
    packages: list[ManifestEntry]


Gathered = dict[CorpusSource, list[CodeDocument]]


def gather(
    language: CorpusLanguage,
    sources: Iterable[CorpusSource],
    warn: Callable[[str], None],
    cap: int = CAP,
    progress: Callable[[str], None] = lambda line: None,
) -> Gathered:
    """Read, filter and deduplicate the sources' files, at most `cap` bytes of each source.

    Packages set apart come first, so that no copy of them is trained on. Of a package's second version only
    what differs is added. `warn` is called with a message for each file that cannot be read, `progress` with a line
    for each source.
    """
    seen, is_learnt = SeenLines(), language.splits.is_learnt
    gathered: Gathered = {}
    for source in sorted(sources, key=lambda source: (is_learnt(source.name), source.name, source.version)):
        kept = capped(_documents(language, source, seen, warn), cap)
        gathered[source] = kept
        progress(f"{source.name} {source.version}: {len(kept)} files, {_size(kept) / 1e6:.1f} MB")
    return gathered


def write(folder: Path, language: CorpusLanguage, gathered: Gathered, refused: Iterable[RefusedPackage]) -> Path:
    """Write train.jsonl, tuning.jsonl, heldout.jsonl and manifest.json; return the manifest's path.

    Only the text to train on is cleaned. The other parts measure how files are completed as their authors left them:
    they lose the notices at their start, nothing else.
    """
    if not any(gathered.values()):
        raise WorkError(f"no {language.title} file passed the filters: name a folder with more code, written by hand")
    parts: dict[Part, list[CodeDocument]] = {
        name: _changed(part, language.clean if name == "train" else language.without_notices)
        for name, part in _parts(language, gathered).items()
    }
    parts["train"] = language.thinned(each for each in parts["train"] if language.looks_written(each.text))
    written = [document for part in parts.values() for document in part]
    examples = examples_in(parts["train"], language.snippets)
    content = {
        "languages": [language.name],
        "packages": _entries(language, gathered, written),
        "examples": {"documents": len(examples), "bytes": _size(examples), "copies": EXAMPLE_COPIES},
        "refused": [each._asdict() for each in sorted(set(refused), key=lambda r: (r.name, r.version))],
    }
    parts["train"] = [*_with_copies(parts["train"], examples)]
    return _write(folder, parts, content)


def join(folders: Sequence[Path], most: int, least: int, out: Path) -> Path:
    """Write a corpus of the documents of several, of each at most `most` bytes to train on; return its manifest.

    The text to train on of a corpus with fewer than `least` bytes is repeated until it has as many, up to four times
    in all: up to there, models learn from repeated text about as much as from new text (arXiv 2305.16264). The
    manifest counts each file once that was taken of a package.
    """
    languages, packages = list[str](), list[ManifestEntry]()
    parts = {part: list[CodeDocument]() for part in get_args(Part)}
    for folder in folders:
        manifest, found = read_manifest(folder / MANIFEST), list[CodeDocument]()
        for part, joined in parts.items():
            all_of_part = documents.read_documents(folder / f"{part}.jsonl")
            taken = capped(all_of_part, most) if part == "train" else all_of_part
            joined += taken * _copies(taken, least) if part == "train" else taken
            found += taken
        files = Counter(map(package_of, found))
        sizes = Counter[str]()
        for document in found:
            sizes[package_of(document)] += len(document.text.encode())
        languages += manifest.languages
        packages += (
            replace(each, files=files[each.folder], bytes=sizes[each.folder])
            for each in manifest.packages
            if each.folder in files
        )
    return _write(out, parts, {"languages": languages, "packages": [asdict(each) for each in packages]})


def _copies(taken: Sequence[CodeDocument], least: int) -> int:
    return min(_MOST_COPIES, -(-least // max(1, _size(taken)))) or 1


def _write(folder: Path, parts: Mapping[Part, Sequence[CodeDocument]], content: Mapping[str, object]) -> Path:
    """Write the documents of each part, in order of path, and the manifest's content; return the manifest's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        documents.write_documents(folder / f"{name}.jsonl", sorted(part, key=lambda document: document.path))
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.json written by `write`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Manifest((*content["languages"],), [ManifestEntry(**entry) for entry in content["packages"]])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkError(f"cannot read {path} ({error}): make it with `corpus` first") from error


def _parts(language: CorpusLanguage, gathered: Gathered) -> dict[Part, list[CodeDocument]]:
    """Group documents by the file they go to; a part none of whose packages are present gets files of all of them."""
    parts: dict[Part, list[CodeDocument]] = {"heldout": [], "tuning": [], "train": []}
    for source, found in gathered.items():
        if part := language.splits.part_of(source.name):
            parts[part] += found
    learnt = sorted(parts["train"], key=lambda d: _order(d.path))
    count = max(len(learnt) > 2, len(learnt) // _APART_OF_FILES)
    for part in _APART:
        if not parts[part]:
            parts[part] += learnt[:count]
            del learnt[:count]
    return {**parts, "train": learnt}


def _changed(found: list[CodeDocument], change: Callable[[str], str]) -> list[CodeDocument]:
    """Return the documents in order of path, with changed texts."""
    changed = (CodeDocument(document.path, change(document.text)) for document in found)
    return sorted(changed, key=lambda d: d.path)


def _with_copies(learnt: list[CodeDocument], examples: list[CodeDocument]) -> Iterator[CodeDocument]:
    """Yield all documents, and each example EXAMPLE_COPIES times, with the number of the copy in its path."""
    paths = {document.path for document in learnt}
    yield from learnt
    for document in examples:
        for copy in range(1, EXAMPLE_COPIES + 1):
            path = document.path if copy == 1 else f"{document.path}.{copy}"
            if path not in paths:
                yield CodeDocument(path, document.text)


def _entries(language: CorpusLanguage, gathered: Gathered, written: list[CodeDocument]) -> list[dict[str, object]]:
    """Describe the packages in the manifest, in order of name."""
    by_path = {document.path: document for document in written}
    entries: list[ManifestEntry] = []
    for source, found in gathered.items():
        if kept := [by_path[document.path] for document in found if document.path in by_path]:
            part = language.splits.part_of(source.name) or "train"
            entries.append(ManifestEntry(source.name, source.version, source.licence, part, len(kept), _size(kept)))
    return [asdict(entry) for entry in sorted(entries, key=lambda e: (e.name, e.version))]


def _size(found: Iterable[CodeDocument]) -> int:
    """Return the size of documents in bytes of UTF-8."""
    return sum(len(document.text.encode()) for document in found)


def _documents(
    language: CorpusLanguage, source: CorpusSource, seen: SeenLines, warn: Callable[[str], None]
) -> Iterator[CodeDocument]:
    """Yield a source's documents; of near duplicates the largest is kept."""
    texts = {name: text for name in source.files if (text := _read_text(source.root / name, warn))}
    for name in sorted(texts, key=lambda n: (-len(texts[n]), n)):
        if language.looks_written(texts[name]) and seen.add_if_new(texts[name]):
            yield CodeDocument(f"{source.folder}/{name}", texts[name])


def capped(found: Iterable[CodeDocument], cap: int) -> list[CodeDocument]:
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
