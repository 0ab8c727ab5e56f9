"""Joins corpora of several languages into one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

from efim_lab.gate import documents
from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.workshop.training.corpus.corpus import MANIFEST, ManifestEntry, capped, read_manifest
from efim_lab.workshop.training.corpus.language import Part


def join(folders: Sequence[Path], most: int, out: Path) -> Path:
    """Write a corpus of the documents of several, of each at most `most` bytes to train on; return its manifest.

    The manifest counts the files that were taken of each package.
    """
    languages, packages = list[str](), list[ManifestEntry]()
    parts = {part: list[CodeDocument]() for part in get_args(Part)}
    for folder in folders:
        manifest, found = read_manifest(folder / MANIFEST), list[CodeDocument]()
        for part, joined in parts.items():
            documents_of_part = documents.read_documents(folder / f"{part}.jsonl")
            taken = capped(documents_of_part, most) if part == "train" else documents_of_part
            joined += taken
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
    out.mkdir(parents=True, exist_ok=True)
    for part, joined in parts.items():
        documents.write_documents(out / f"{part}.jsonl", sorted(joined, key=lambda document: document.path))
    content = {"languages": languages, "packages": [asdict(each) for each in packages]}
    (out / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")
    return out / MANIFEST
