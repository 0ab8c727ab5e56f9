"""The names of an environment's modules that documents refer to, read by a separate process.

Modules that an open document refers to are read, and the modules that those need: some 50 to 200, in about a second.
So nothing is kept on disk. A module that changes is read again when a document that refers to it is next looked at.
Parsing holds the interpreter's lock and takes much memory. So another process does it, which ends when all is read.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from time import monotonic
from typing import NamedTuple, cast

from efim_ls.request import Expected, NameKind, Names
from efim_ls.workspace.modules import source
from efim_ls.workspace.modules.document import REACH, DocumentImports, expected, expressions, imports_of
from efim_ls.workspace.modules.environment import ELSEWHERE, WORKSPACE, Environment, ModulePlace, is_in, modules_in
from efim_ls.workspace.modules.names import Module, Modules
from efim_ls.workspace.modules.source import ANY, ModuleRecord, words_of

MOST_BYTES = 16 << 20  # of packed records
MOST_SECONDS = 20.0  # of the reading processes, all together
MOST_DEATHS = 3  # of such a process, each at a module that it cannot read
EMPTY = ModuleRecord(names={}, sources={}, stars=[], classes={}, functions={}, open=False)
# A module of the library for another system: what imports it here gets nothing from it.
FOREIGN = ModuleRecord(names={}, sources={}, stars=[], all=[], classes={}, functions={}, open=True)
PUBLISH = 0.3  # seconds between views, while a document's modules are read
DOCUMENTS = 8  # whose imports a view remembers

logger = logging.getLogger(__name__)


class PackedModule(NamedTuple):
    """A module's place and packed record, which is empty if it cannot be read, and the modules in it."""

    place: ModulePlace
    record: bytes
    submodules: frozenset[str]


class ModuleView:
    """The names of modules at one time; it reads nothing. Used on the threads of a client's models.

    Two views of one `version` give the same answers.
    """

    def __init__(
        self,
        packed: Mapping[str, PackedModule],
        top_level: Names,
        version: int,
        words: frozenset[str] = frozenset(),
        places: Mapping[str, str] = {},
    ) -> None:
        """`places` says in plain words where modules lie."""
        self.version, self.top_level, self._words, self._places = version, top_level, words, places
        self.modules = Modules(lambda name: _unpacked(found) if (found := packed.get(name)) else None)
        self._documents = dict[str, DocumentImports]()  # by URI
        self._lock = threading.Lock()  # held while these are read and changed: less than a millisecond

    def has(self, word: str) -> bool:
        """Return whether any module has a name like this, or a class or function in it."""
        return word in self._words

    def expected(self, uri: str, text: str, cursor: int) -> Expected | None:
        """Return what code expects at a place in a document, None if that is anything or unknown."""
        with self._lock:
            if uri not in self._documents and len(self._documents) >= DOCUMENTS:
                self._documents.pop(next(iter(self._documents)))
            imports = self._documents.setdefault(uri, DocumentImports()).at(text, cursor)
            found = expected(text[max(0, cursor - REACH) : cursor], imports, self.modules, self.top_level)
        return found and found._replace(places=self._places)


class ModuleTable:
    """The modules of a workspace's environment. Its methods return at once, on any thread, but `wait`.

    `view` is replaced whole. A thread runs while there is something to read. The processes that read have taken
    `seconds` of CPU.
    """

    def __init__(self, find: Callable[[], Environment]) -> None:
        """Know nothing yet; `find` is called for each document, since an environment may be made at any time."""
        self._find_environment = find
        self.view = ModuleView({}, Names({}, is_open=True), 0)
        self._changed = threading.Condition()
        self._wanted = dict[str, str]()  # texts by their paths; changed under the condition, like the thread
        self._thread: threading.Thread | None = None
        # What follows belongs to the thread.
        self._environment = Environment("", "")
        self._packed = dict[str, PackedModule]()
        self._words = set[str]()  # of all modules that were read, also of those that have changed since
        self._shadowed = set[str]()  # names of the library or of packages that a document's folder has as well
        self._looked_at = dict[str, Module | None]()  # for the document in hand
        self.seconds, self._deaths = 0.0, 0
        self._is_new, self._published = True, 0.0
        self._reader: _Reader | None = None

    def want(self, path: str, text: str) -> None:
        """Learn what a Python document refers to; of several texts for one path only the latest counts."""
        with self._changed:
            self._wanted[path] = text
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="module names", daemon=True)
                self._thread.start()

    @property
    def size(self) -> int:
        """The bytes of all records; on the thread that reads, or when it has nothing to do."""
        return sum(len(each.record) for each in self._packed.values())

    @property
    def modules(self) -> int:
        """The number of modules that are known; on the same threads."""
        return len(self._packed)

    def wait(self, seconds: float) -> bool:
        """Wait until all that was wanted is known; return whether it is within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, seconds)

    def _run(self) -> None:
        while True:
            while wanted := self._next():
                self._learn(*wanted)
            self._end_reader()
            with self._changed:
                if not self._wanted:
                    self._thread = None
                    self._changed.notify_all()
                    return

    def _next(self) -> tuple[str, str] | None:
        """Return a path and its text, None if there are no more."""
        with self._changed:
            path = next(iter(self._wanted), None)
            return (path, self._wanted.pop(path)) if path is not None else None

    def _learn(self, path: str, text: str) -> None:
        """Read what a text refers to, and publish it."""
        try:
            self._looked_at = {}
            if (environment := self._find_environment()) != self._environment:
                self._environment, self._is_new = environment, True
                self._packed.clear()
            imports, modules = imports_of(text), Modules(self._find)
            self._shadow(os.path.dirname(path), {module.partition(".")[0] for module in imports.modules})
            for start, names in expressions(text, imports):
                target = start
                modules.attributes(target)
                for name in names:
                    target = modules.follow(target, [name])
                    if target is None:
                        break
                    modules.attributes(target)
                    modules.keywords(target)
                if self._is_new and monotonic() > self._published + PUBLISH:
                    self._publish()
        except Exception as error:  # the published names stay
            logger.error("the names of modules cannot be read", exc_info=error)
        if self._is_new:
            self._publish()

    def _publish(self) -> None:
        places = self._environment.places()
        public: dict[str, NameKind] = {name: "module" for name in sorted(places) if not name.startswith("_")}
        top_level = Names(public, not self._environment.is_whole)
        places |= dict.fromkeys(self._shadowed, WORKSPACE)
        version, words = self.view.version + 1, frozenset(self._words)
        self.view = ModuleView(dict(self._packed), top_level, version, words, places)
        self._is_new, self._published = False, monotonic()

    def _shadow(self, folder: str, names: set[str]) -> None:
        """Forget modules that a script in this folder replaces by a module of the folder."""
        if not folder or os.path.isfile(os.path.join(folder, "__init__.py")):
            return
        for name in names - self._shadowed:
            if is_in(folder, name):
                self._shadowed.add(name)
                for module in [each for each in self._packed if each.partition(".")[0] == name]:
                    del self._packed[module]
                    self._is_new = True

    def _find(self, name: str) -> Module | None:
        """Return a module as it is now, which may have to be read."""
        if name not in self._looked_at:
            held, is_shadowed = self._packed.get(name), name.partition(".")[0] in self._shadowed
            now = None if is_shadowed else self._environment.place(name)
            if now is None:
                self._is_new |= self._packed.pop(name, None) is not None
                held = None
            elif held is None or held.place != now:
                self._packed.pop(name, None)
                if (held := self._read(name, now)) is not None:
                    self._packed[name], self._is_new = held, True
            self._looked_at[name] = _unpacked(held) if held else None
        return self._looked_at[name]

    def _read(self, name: str, place: ModulePlace) -> PackedModule | None:
        """Return a module from its place, None if there is no more room or time for it."""
        submodules = modules_in(place.folder) if place.folder else frozenset[str]()
        if place.is_foreign or (place.folder and not place.path):
            return PackedModule(place, _packed(FOREIGN if place.is_foreign else EMPTY), submodules)
        if self.seconds >= MOST_SECONDS or self._deaths >= MOST_DEATHS or self.size >= MOST_BYTES:
            return None
        self._reader = self._reader or _Reader()
        try:
            seconds, record = self._reader.read(place, name)
        except OSError:  # it has died of this module
            self._end_reader()
            self._deaths += 1
            return PackedModule(place, b"", submodules)
        self.seconds += seconds
        if record is None:
            return PackedModule(place, b"", submodules)
        for elsewhere in ELSEWHERE.get(name, "").split():
            record["names"].setdefault(elsewhere, "value")
        self._words.update(words_of(record))
        if place.is_compiled and not self._environment.is_own:
            record["open"] = True
            for each in record["classes"].values():
                each["open"], each["parameters"] = True, [ANY]
        return PackedModule(place, _packed(record), submodules)

    def _end_reader(self) -> None:
        if self._reader:
            self._reader.close()
        self._reader = None


class _Reader:
    """A process that reads modules; see `source.py`. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", "-W", "ignore", "-X", "utf8", source.__file__]
        self._seconds = 0.0
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
            creationflags=getattr(subprocess, "IDLE_PRIORITY_CLASS", 0) | getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )  # fmt: skip

    def read(self, place: ModulePlace, module: str) -> tuple[float, ModuleRecord | None]:
        """Return the seconds that reading a module took, and its record if it can be read."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([place.path, module, bool(place.folder)]), file=self._process.stdin, flush=True)
        if not (answer := self._process.stdout.readline()):
            raise OSError("the reader of modules has ended")
        seconds, record = json.loads(answer)
        taken, self._seconds = seconds - self._seconds, seconds
        return taken, record

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _packed(record: ModuleRecord) -> bytes:
    return zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 1)


def _unpacked(module: PackedModule) -> Module | None:
    return Module(_record(module.record), module.submodules) if module.record else None


@lru_cache(maxsize=64)
def _record(packed: bytes) -> ModuleRecord:
    return cast("ModuleRecord", json.loads(zlib.decompress(packed)))
