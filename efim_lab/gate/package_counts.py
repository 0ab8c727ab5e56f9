"""What a server counts of the package that a document lies in, its repository."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from efim_lab.gate.documents import CodeDocument
from model_runtime.counts.snapshot import CountedDocument, Counts, CountsView
from model_runtime.prompt.tokenizer import Tokenizer

DIGEST_BYTES = 16


class PackageCounts:
    """The memory of each package's files in one language, built when it is first asked for."""

    def __init__(self, tokenizer: Tokenizer, documents: Sequence[CodeDocument]) -> None:
        """Take all documents of the packages; their paths must differ."""
        self._tokenizer, self._memories = tokenizer, dict[tuple[str, str], Counts]()
        self._packages: dict[tuple[str, str], list[CodeDocument]] = {}
        for document in documents:
            self._packages.setdefault(document.kin, []).append(document)

    @property
    def packages(self) -> Sequence[Sequence[CodeDocument]]:
        """The documents of each package, in one language."""
        return [*self._packages.values()]

    def beside(self, document: CodeDocument, opened: Iterable[CodeDocument] = ()) -> CountsView:
        """Return the memory of a document's package without itself and those open, which are read as edited."""
        key = document.kin
        if key not in self._memories:
            self._memories[key] = self._count(self._packages.get(key, []))
        return self._memories[key].without([document.path, *(each.path for each in opened)])

    def _count(self, documents: Sequence[CodeDocument]) -> Counts:
        return Counts().with_changes([], [self._read(document) for document in documents]).merged()

    def _read(self, document: CodeDocument) -> CountedDocument:
        digest = blake2b(document.text.encode("utf-8", "replace"), digest_size=DIGEST_BYTES).digest()
        return CountedDocument(document.path, digest, self._tokenizer.encode(document.text))
