"""What a session knows of its workspace's files: their counts, kept up to date on a thread of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import monotonic

from efim_ls.workspace.excerpts.workspace_excerpts import RetrievalPlace, WorkspaceExcerpts
from efim_ls.workspace.index import IndexStatus, Scope, Steps, WorkspaceIndex, open_index
from efim_ls.workspace.watcher import FileWatcher
from model_runtime.counts.snapshot import CountsView
from model_runtime.machine import release_memory

NICENESS = 10  # of 19: a thread that never ran while others do would keep the interpreter's lock from them
PATIENCE = 2.0  # seconds: after such a wait a step is done although the user is typing
MANY_STEPS = 1_000  # of one piece of work, after which freed memory is worth giving back
LOOK = 0.05  # seconds between looks at whether the user still types

Work = Callable[[WorkspaceIndex], Steps]

logger = logging.getLogger(__name__)


class Repository:
    """The index of one session's workspace, and the thread that works on it.

    Its methods belong to the event loop's thread and return at once. What the thread publishes is immutable, and a
    view never waits for it: a half-built index has counts of fewer files. If `watches` is set, changes on disk are
    noticed here.
    """

    def __init__(
        self,
        is_typing: Callable[[], bool],
        on_status: Callable[[IndexStatus], None],
        on_excerpts: Callable[[], None] = lambda: None,
    ) -> None:
        """Start with nothing to index. What is passed is called on the repository's thread."""
        self.watches = False
        self._is_typing, self._on_status, self._on_excerpts = is_typing, on_status, on_excerpts
        self._watcher: FileWatcher | None = None
        self._thread: threading.Thread | None = None
        self._made: WorkspaceIndex | None = None  # as far as the thread is; used by it alone, like its building
        self._building: Steps | None = None
        # What follows is changed under this lock only. Its waits are the thread's.
        self._changed = threading.Condition()
        self._scope: Scope | None = None
        self._index: WorkspaceIndex | None = None  # of this scope; None until the thread has begun it
        self._begun = True  # whether the thread has seen the scope
        self._work = deque[Work]()
        self._closed = self._at_work = False
        self._retrieval: RetrievalPlace | None = None  # that is wanted

    def adopt(self, scope: Scope | None) -> bool:
        """Index what a scope names, None for nothing, in place of what was indexed; return whether that is new.

        What was read under earlier rules is out of the next view.
        """
        if is_new := scope != self._scope:
            self._stop_watching()
            with self._changed:
                self._scope, self._index, self._begun = scope, None, False
                self._work.clear()
                self._retrieval = None
                self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="repository", daemon=True)
                self._thread.start()
        if self.watches and scope and self._watcher is None:
            self._watcher = FileWatcher(scope.folders, self.refresh)
        return is_new

    def refresh(self, paths: Iterable[str]) -> None:
        """Read files or folders again that may have changed on disk; on any thread."""
        changed = tuple(paths)
        self._post(lambda index: index.refresh(changed))

    def open(self, path: str, language: str, text: str) -> None:
        """Count an open document's text in place of its file's, or a newer text in place of an older one."""
        self._post(lambda index: index.open(path, language, text))

    def close_document(self, path: str) -> None:
        """Count a file's own text again."""
        self._post(lambda index: index.close_document(path))

    def view(self, family: str, without: Iterable[str]) -> CountsView | None:
        """Return the counts of a family of languages, less some files by their real paths; None without any."""
        counts = index.counts.snapshot.get(family) if (index := self._index) else None
        return counts.without(without) if counts and counts.tokens else None

    @property
    def excerpts(self) -> WorkspaceExcerpts | None:
        """What prompts may show of other files; None while nothing is indexed, or excerpts are off."""
        return index.excerpts if (index := self._index) else None

    def retrieve(self, place: RetrievalPlace) -> None:
        """Look up the code most similar to a place, unless a later place comes first, for `excerpts` to return."""
        with self._changed:
            is_waiting, self._retrieval = self._retrieval is not None, place
        if not is_waiting:
            self._post(self._retrieve)

    def _retrieve(self, index: WorkspaceIndex) -> Steps:
        with self._changed:
            wanted, self._retrieval = self._retrieval, None
        if wanted:
            yield from index.retrieve(wanted)

    @property
    def status(self) -> IndexStatus | None:
        """What is indexed; None if nothing is."""
        return index.status if (index := self._index) else None

    def wait(self, seconds: float) -> bool:
        """Wait until everything posted is done; return whether it is within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._has_work() and not self._at_work, seconds)

    def close(self, seconds: float) -> bool:
        """End the thread between two steps; return whether it has ended within `seconds`."""
        self._stop_watching()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        self._watcher = None

    def _post(self, work: Work) -> None:
        with self._changed:
            if self._scope is not None:
                self._work.append(work)
                self._changed.notify_all()

    def _has_work(self) -> bool:
        return not self._begun or bool(self._work)

    def _run(self) -> None:
        """Work until the repository is closed, on its thread: first what was posted, then on the index itself."""
        with suppress(AttributeError, OSError):  # only Linux gives threads priorities of their own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while (task := self._next()) is not None:
            task()
        if self._made is not None:
            self._made.close()

    def _next(self) -> Callable[[], None] | None:
        """Wait for something to do and return it; None once the repository is closed."""
        with self._changed:
            self._at_work = self._building is not None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._building or self._has_work())
            self._at_work = True
            if self._closed:
                return None
            if not self._begun:
                self._begun = True
                return partial(self._begin, self._scope)
            return partial(self._finish, self._work.popleft()) if self._work else self._build_on

    def _begin(self, scope: Scope | None) -> None:
        """Make the index of a scope in place of the one before; completions do without one that cannot be made."""
        if self._made is not None:
            self._made.close()
        self._made = self._building = None
        try:
            if scope:
                opened = open_index(scope, logger.warning)
                if not opened.searchable:
                    opened.forget_search()
                self._made = WorkspaceIndex(scope, opened, self._on_status, self._on_excerpts)
        except Exception as error:
            logger.error("the workspace cannot be indexed", exc_info=error)
        self._building = self._made.build() if self._made else None
        with self._changed:
            if self._begun:  # else another scope has come meanwhile
                self._index = self._made

    def _build_on(self) -> None:
        if self._building and not self._step(self._building):
            self._building = None
            release_memory()

    def _finish(self, work: Work) -> None:
        """Take all steps of a piece of work, unless a new scope makes it pointless."""
        steps, taken = work(self._made) if self._made else None, 0
        while steps and self._begun and not self._closed and self._step(steps):
            taken += 1
        if taken >= MANY_STEPS:
            release_memory()

    def _step(self, steps: Steps) -> bool:
        """Take one step once the user pauses; return whether there are more."""
        end = monotonic() + PATIENCE
        while self._is_typing() and monotonic() < end and not self._closed:
            with self._changed:
                self._changed.wait(LOOK)
        try:
            next(steps)
        except StopIteration:
            return False
        except Exception as error:  # completions go on with what is published
            logger.error("a step of indexing the workspace failed", exc_info=error)
            return False
        return True
