"""`python -m benchmarks.keystrokes.entered_files`: which files of the product warm keystrokes enter, and how often.

A reader who follows a keystroke has these Python files to read. They and the calls of the product's functions are
counted by a profile hook in the threads of the server's process that a key waits for. The thread that looks for
changed files does so by the clock, and the index's thread then reads them. The last line is a JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

from benchmarks.table import show
from editor_clients.headless.client import editor
from editor_clients.headless.connection import Connection
from efim_ls.lsp.handlers import HANDLERS
from efim_ls.lsp.server import serve
from efim_ls.workspace.thread import INDEXING
from efim_ls.workspace.watcher import WATCHING
from model_runtime.engine.decode import run_pass

ROOT = Path(__file__).parents[2]
PRODUCT = ("efim_ls", "model_runtime", "kv_store")
PASS = run_pass.__code__
BY_THE_CLOCK = (WATCHING, INDEXING)  # threads whose work no key waits for
ASK = "efim/enteredFiles"  # a request that the measured server also answers
# Nothing is computed ahead: that goes on after an answer, and would be counted now and then. Nothing is kept on disk.
SETTINGS = {"prefetch_seconds_per_minute": 0, "persist": False, "shared": False}
NAME = "visit.py"
STORE = "def load(path):\n    zebra = Quagga(path, stripes=17)\n    zebra.brush(path)\n    return zebra\n"
TEXT = "import os\n\n\ndef visit(path):\n    zebra = Quagga(path, stripes=17)\n"
WARMING, KEYS = "    names = sorted(", "os.listdir(path))\n    for name in names:\n        "

_entered = Counter[str]()  # calls by the file names of code, in the server's process
_passes = list[int]()  # calls before each of the model's passes


class Key(NamedTuple):
    """One key: the files that it entered, the calls of the product's functions, and those before each pass."""

    files: Sequence[str]
    calls: int
    passes: Sequence[int]


class Measured(NamedTuple):
    """What keys entered, at the median: files of those that asked the model and of those that were typed through.

    `longest` are the files of the key that entered most.
    """

    longest: Sequence[str]
    asked_files: float
    typed_files: float
    typed_calls: float
    token_calls: float


class CountedServer(Connection):
    """A server whose process counts the files that it enters."""

    command = (sys.executable, "-m", __spec__.name if __spec__ else __name__, "serve")


def measure(settings: Mapping[str, object], keys: str = KEYS) -> Measured:
    """Type keys, and return the files that they entered; a token's calls are those from one pass to the next."""
    with TemporaryDirectory() as folder:
        found = asyncio.run(_typed(Path(folder).resolve(), settings, keys))
    longest = max((key.files for key in found), key=len)
    asked, typed = [key for key in found if key.passes], [key for key in found if not key.passes]
    tokens = [after - before for key in asked for before, after in pairwise(key.passes[1:])]
    measured = Measured(
        longest,
        median(len(key.files) for key in asked),
        median(len(key.files) for key in typed),
        median(key.calls for key in typed),
        median(tokens),
    )
    packages = Counter(str(Path(file).parent) for file in longest)
    show("files that one warm keystroke enters", ("package", "files"), [*packages.items(), ("in all", len(longest))])
    show("medians of warm keystrokes", ("", "at the median"), [*measured._asdict().items()][1:])
    return measured


async def _typed(folder: Path, settings: Mapping[str, object], keys: str) -> list[Key]:
    """Return the files that each key enters, from its edit to its answer."""
    (folder / "store.py").write_text(STORE, "utf-8")
    uri, found = (folder / NAME).as_uri(), list[Key]()
    async with editor({**SETTINGS, **settings}, kind=CountedServer, folder=folder) as headless:
        headless.open(uri, TEXT, "python")
        await headless.settled()
        for key in WARMING + keys:
            (folder / "store.py").write_text(STORE + "#" + key + str(len(found)), "utf-8")
            await headless.ask(ASK)  # what came before is forgotten
            at = len(headless.text(uri))
            headless.edit(uri, at, 0, key)
            await headless.suggestion(uri, at + 1)
            files, passes = await headless.ask(ASK)
            asking, _ = await headless.ask(ASK)  # alone: what the question itself takes
            found.append(Key(sorted(files), sum(files.values()) - sum(asking.values()), passes))
    return found[len(WARMING) :]


def _begin(_frame: FrameType, _event: str, _: object) -> None:
    """Count from now on what a thread enters; called when it begins."""
    sys.setprofile(None if threading.current_thread().name in BY_THE_CLOCK else _count)


def _count(frame: FrameType, event: str, _: object) -> None:
    if event == "call":
        _entered[frame.f_code.co_filename] += 1
        if frame.f_code is PASS:
            _passes.append(_of_product().total())


def _of_product() -> Counter[str]:
    """Return the calls of the product's functions, by their files' paths below the repository's root."""
    paths = {Path(each): calls for each, calls in _entered.copy().items()}
    inside = {each.relative_to(ROOT): calls for each, calls in paths.items() if each.is_relative_to(ROOT)}
    return Counter({each.as_posix(): calls for each, calls in inside.items() if each.parts[0] in PRODUCT})


def _entered_since(_server: object, _params: object) -> tuple[Mapping[str, int], Sequence[int]]:
    """Return the files entered since the last request."""
    files, passes = _of_product(), _passes.copy()
    _entered.clear()
    _passes.clear()
    return files, passes


def _serve() -> int:
    HANDLERS[ASK] = _entered_since, None
    threading.setprofile(_begin)
    sys.setprofile(_count)
    return serve()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        sys.exit(_serve())
    print(json.dumps(measure({})._asdict()))
