"""An endless, reproducible stream of training rows; other processes make them, each one shard ahead."""

import functools
import multiprocessing
import os
import random
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from efim_lab.gate import documents
from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.packages import PackageFiles, PackageMates, by_package
from efim_lab.workshop.training.samples.packing import pack
from efim_lab.workshop.training.samples.sample_maker import Layout, SampleMaker, Shares
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer

_CHARACTERS_PER_TOKEN = 3.8


@dataclass(frozen=True, slots=True)
class ShardSource:
    """The source of shards, whose rows also depend on index and length; a shard has about `characters` of text.

    `tokenizer` is a folder; without a layout it must be a tokenizer that we trained.
    """

    corpus: Path
    tokenizer: Path
    seed: int = 0
    characters: int = 2_000_000
    shares: Shares = field(default_factory=Shares)
    layout: Layout | None = None


def make_shard(source: ShardSource, index: int, length: int) -> NDArray[np.int32]:
    """Make the rows of one shard [rows, length], in random order."""
    rng = random.Random(f"{source.seed} {index} {length}")
    makers = _Makers(source, length)
    samples = (
        makers[language].make(text, is_end, rng, others)
        for text, is_end, others, language in shard_windows(source, index, length)
    )
    rows = pack(samples, length)
    return rows[rng.sample(range(len(rows)), len(rows))]


class _Makers(dict[str, SampleMaker]):
    """Makers of samples by language: a prompt may begin with the marker of one."""

    def __init__(self, source: ShardSource, length: int) -> None:
        self._source, self._length = source, length
        self._tokenizer = _tokenizer(source.tokenizer)
        self._layout = source.layout or Layout(find_template(self._tokenizer), bpe.ID[bpe.END])

    def __missing__(self, language: str) -> SampleMaker:
        layout = replace(self._layout, template=self._layout.template.of([language]))
        self[language] = SampleMaker(self._tokenizer, self._source.shares, self._length, layout)
        return self[language]


class ShardWindow(NamedTuple):
    """A window of a document, whether it ends there, the other files of its package, and its language."""

    text: str
    is_end: bool
    others: PackageMates | None
    language: str


def shard_windows(source: ShardSource, index: int, length: int) -> list[ShardWindow]:
    """Return a shard's windows; each pass over the corpus spreads all windows over its shards at random.

    With whole files in a shard, the model would learn one file at the expense of the one before.
    """
    size = sum(len(document.text) for document in _documents(source.corpus))
    shards = -(-size // source.characters)
    number, at = divmod(index, shards)
    return _one_pass(source.corpus, f"{source.seed} {number}", length)[at::shards]


def windows(text: str, length: int, rng: random.Random) -> Iterator[tuple[str, bool]]:
    """Cut a text at line starts into windows of about 0.5 to 1 times `length` tokens; the last is flagged."""
    start = 0
    while start < len(text):
        stop = start + int(rng.uniform(0.5, 1) * length * _CHARACTERS_PER_TOKEN)
        stop = text.find("\n", stop) + 1 or len(text)
        yield text[start:stop], stop == len(text)
        start = stop


class Batches:
    """Batches of rows in order; `shard`, `row` and `length` are the position to continue from.

    The rows do not depend on how many `processes` make them.
    """

    def __init__(
        self, source: ShardSource, shard: int = 0, row: int = 0, length: int = 0, processes: int = 1
    ) -> None:
        self.shard, self.row, self.length = shard, row, length
        self._source = source
        self._rows: NDArray[np.int32] | None = None
        self._ahead = deque[Future[NDArray[np.int32]]]()
        self._processes = processes
        self._workers = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _follow_parent)

    def take(self, count: int, length: int) -> NDArray[np.int64]:
        """Return the next batch [count, length]; a new length starts at the next shard."""
        if length != self.length:
            self.shard, self.row = self.shard + (self.length > 0), 0
            self.length, self._rows = length, None
            self._ahead.clear()
        if self._rows is None:
            self._rows = self._load()
        if self.row + count > len(self._rows):
            self.shard, self.row = self.shard + 1, 0
            self._rows = self._load()
        if count > len(self._rows):
            raise WorkError(f"the corpus has too little text for {count} rows of {length}: gather more files")
        self.row += count
        return self._rows[self.row - count : self.row].astype(np.int64)

    def close(self) -> None:
        """Stop the processes."""
        self._workers.shutdown(cancel_futures=True)

    def _load(self) -> NDArray[np.int32]:
        while len(self._ahead) <= self._processes:
            shard = self.shard + len(self._ahead)
            self._ahead.append(self._workers.submit(make_shard, self._source, shard, self.length))
        return self._ahead.popleft().result()


def _follow_parent() -> None:
    """Leave Ctrl+C, which also reaches workers, to the parent; end with the parent even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@functools.lru_cache(maxsize=1)
def _one_pass(path: Path, seed: str, length: int) -> list[ShardWindow]:
    rng, packages = random.Random(seed), _packages(path)
    found = [
        ShardWindow(text, is_end, _others(packages, document), document.language)
        for document in _documents(path)
        for text, is_end in windows(document.text, length, rng)
    ]
    rng.shuffle(found)
    return found


@functools.cache
def _documents(path: Path) -> list[CodeDocument]:
    return documents.read_documents(path)


def _others(packages: dict[str, PackageFiles], document: CodeDocument) -> PackageMates | None:
    package = packages.get(package_of(document))
    return PackageMates(package, document) if package else None


@functools.cache
def _packages(path: Path) -> dict[str, PackageFiles]:
    return by_package(_documents(path))


@functools.cache
def _tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder / "tokenizer.json")
