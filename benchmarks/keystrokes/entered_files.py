"""`python -m benchmarks.keystrokes.entered_files`: which Python files of the product one warm keystroke enters.

A reader who follows a keystroke has these to read. They are counted by a profile hook in all threads of the server's
process but the one that looks for changed files by the clock. The last line is a JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from benchmarks.table import show
from editor_clients.headless.client import editor
from editor_clients.headless.connection import Connection
from efim_ls.lsp.handlers import HANDLERS
from efim_ls.lsp.server import serve
from efim_ls.workspace.watcher import WATCHING

ROOT = Path(__file__).parents[2]
PRODUCT = ("efim_ls", "model_runtime", "kv_store")
ASK = "efim/enteredFiles"  # a request that the measured server answers beside its own
# Nothing is computed ahead: that goes on after an answer, and would be counted now and then. Nothing is kept on disk.
SETTINGS = {"prefetch_seconds_per_minute": 0, "persist": False, "shared": False}
NAME = "visit.py"
STORE = "def load(path):\n    zebra = Quagga(path, stripes=17)\n    zebra.brush(path)\n    return zebra\n"
TEXT = "import os\n\n\ndef visit(path):\n    zebra = Quagga(path, stripes=17)\n"
WARMING, KEYS = "    names = sorted(", "os.listdir(path))\n    for name in names:\n        "

_entered = set[str]()  # file names of code, in the server's process


class CountedServer(Connection):
    """A server whose process counts the files that it enters."""

    command = (sys.executable, "-m", __spec__.name if __spec__ else __name__, "serve")


def measure(settings: Mapping[str, object]) -> list[str]:
    """Type a few lines and return the product's files that the key with the most of them enters, sorted."""
    with TemporaryDirectory() as folder:
        longest = max(asyncio.run(_typed(Path(folder).resolve(), settings)), key=len)
    packages = Counter(str(Path(file).parent) for file in longest)
    show("files that one warm keystroke enters", ("package", "files"), [*packages.items(), ("in all", len(longest))])
    return longest


async def _typed(folder: Path, settings: Mapping[str, object]) -> list[list[str]]:
    """Return the files that each key enters, from its edit to its answer."""
    (folder / "store.py").write_text(STORE, "utf-8")
    uri, found = (folder / NAME).as_uri(), list[list[str]]()
    async with editor({**SETTINGS, **settings}, kind=CountedServer, folder=folder) as headless:
        headless.open(uri, TEXT, "python")
        await headless.settled()
        for key in WARMING + KEYS:
            await headless.ask(ASK)  # what came before is forgotten
            at = len(headless.text(uri))
            headless.edit(uri, at, 0, key)
            await headless.suggestion(uri, at + 1)
            found.append(await headless.ask(ASK))
    return found[len(WARMING) :]


def _begin(_frame: FrameType, _event: str, _: object) -> None:
    """Count from now on what a thread enters; called when it begins."""
    sys.setprofile(None if threading.current_thread().name == WATCHING else _count)


def _count(frame: FrameType, event: str, _: object) -> None:
    if event == "call":
        _entered.add(frame.f_code.co_filename)


def _entered_since(_server: object, _params: object) -> list[str]:
    """Return the product's files that were entered since this was last asked, sorted."""
    paths = [Path(each).relative_to(ROOT) for each in _entered.copy() if Path(each).is_relative_to(ROOT)]
    _entered.clear()
    return sorted(path.as_posix() for path in paths if path.parts[0] in PRODUCT)


def _serve() -> int:
    HANDLERS[ASK] = _entered_since, None
    threading.setprofile(_begin)
    sys.setprofile(_count)
    return serve()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        sys.exit(_serve())
    print(json.dumps({"entered_files": measure({})}))
