"""The thread that works on one index for all of its clients."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import monotonic

from efim_ls.workspace.files.context import RetrievalPlace
from efim_ls.workspace.index import Scope, Steps, WorkspaceIndex, open_index
from efim_ls.workspace.overlay import Overlay
from efim_ls.workspace.watcher import FileWatcher
from model_runtime.machine import release_memory

NICENESS = 10  # of 19: a thread that never ran while others do would keep the interpreter's lock from them
PATIENCE = 2.0  # seconds: after such a wait a step is done although the user is typing
MANY_STEPS = 1_000  # of one piece of work, after which freed memory is worth giving back
LOOK = 0.05  # seconds between looks at whether the user still types
INDEXING = "repository"  # the thread's name

Work = Callable[[WorkspaceIndex], Steps]

logger = logging.getLogger(__name__)


class IndexThread:
    """The index of one scope, and the thread that works on it until its last client leaves.

    Its methods return at once, on any thread. What the index publishes to overlays is immutable, and nobody waits
    for it: a half-built index has counts of fewer files.
    """

    def __init__(self, scope: Scope, is_typing: Callable[[], bool], after: Iterable[IndexThread]) -> None:
        """Begin once the threads in `after` have ended: they may still write under older rules."""
        self.scope, self._is_typing = scope, is_typing
        self._watcher: FileWatcher | None = None
        self._made: WorkspaceIndex | None = None  # used by the thread alone, like its building
        self._building: Steps | None = None
        # What follows is changed under this lock only. Its waits are the thread's.
        self._changed = threading.Condition()
        self._clients = 0
        self._work, self._asked = deque[Work](), deque[Work]()
        self._closed, self._at_work = False, True
        self._thread = threading.Thread(target=self._run, args=(tuple(after),), name=INDEXING, daemon=True)
        self._thread.start()

    def join(self, overlay: Overlay) -> None:
        """Publish for a client from now on."""
        with self._changed:
            self._clients += 1
        self.post(lambda index: index.join(overlay))

    def leave(self, overlay: Overlay) -> bool:
        """Forget a client; end between two steps, and return true, if it was the last."""
        with self._changed:
            self._clients -= 1
            self._closed = self._clients == 0
            self._changed.notify_all()
        self.post(lambda index: index.leave(overlay))
        if self._closed and self._watcher:
            self._watcher.close()
        return self._closed

    def watch(self) -> None:
        """Notice changes on disk here, because a client does not."""
        if self._watcher is None:
            self._watcher = FileWatcher(self.scope.folders, self.refresh)

    def refresh(self, paths: Iterable[str]) -> None:
        """Read files or folders again that may have changed on disk."""
        changed = tuple(paths)
        self.post(lambda index: index.refresh(changed))

    def retrieve(self, overlay: Overlay, place: RetrievalPlace) -> None:
        """Look up the code most similar to a client's place, unless a later place of it comes first."""
        with self._changed:
            is_waiting, overlay.wanted = overlay.wanted is not None, place
        if not is_waiting:
            self.post(lambda index: self._retrieve(index, overlay))

    def _retrieve(self, index: WorkspaceIndex, overlay: Overlay) -> Steps:
        with self._changed:
            wanted, overlay.wanted = overlay.wanted, None
        if wanted:
            yield from index.retrieve(overlay, wanted)

    def post(self, work: Work, at_once: bool = False) -> None:
        """Do something with the index, after earlier posts; something short `at_once`, even while the user types."""
        with self._changed:
            if not self._closed:
                (self._asked if at_once else self._work).append(work)
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until everything posted is done; return whether it is within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._work or self._asked or self._at_work), seconds)

    def ended(self, seconds: float | None = None) -> bool:
        """Wait until the thread has ended; return whether it has within `seconds`, if a number is given."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self, after: Iterable[IndexThread]) -> None:
        """Work until the last client leaves, on the thread: first on posts, then on the index itself."""
        with suppress(AttributeError, OSError):  # only Linux gives each thread a priority
            own = os.getpriority(os.PRIO_PROCESS, 0)  # a server may have been started with less urgency
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(own, NICENESS))
        for each in after:
            each.ended()
        self._begin()
        while self._has_worked():
            pass
        if self._made is not None:
            self._made.close()
        with self._changed:
            self._made = self._building = None
            self._work.clear()  # it may hold posts of clients that have gone
            self._asked.clear()
            self._at_work = False
            self._changed.notify_all()

    def _has_worked(self) -> bool:
        """Wait for something to do and do it; return false once the thread is to end."""
        task = self._next()
        if task is not None:
            task()
        return task is not None

    def _next(self) -> Callable[[], None] | None:
        """Wait for something to do and return it; None once the thread is to end."""
        with self._changed:
            self._at_work = self._building is not None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._building or self._work or self._asked)
            self._at_work = True
            if self._closed:
                return None
            if self._asked:
                return self._do_asked
            return partial(self._finish, self._work.popleft()) if self._work else self._build_on

    def _begin(self) -> None:
        """Make the index, unless it is not wanted any more; completions do without it if it cannot be made."""
        try:
            if not self._closed:
                opened = open_index(self.scope, logger.warning)
                opened.drop_excess()
                self._made = WorkspaceIndex(self.scope, opened)
        except Exception as error:
            logger.error("the workspace cannot be indexed", exc_info=error)
        self._building = self._made.build() if self._made else None

    def _build_on(self) -> None:
        if self._building and not self._step(self._building):
            self._building = None
            release_memory()

    def _do_asked(self) -> None:
        """Do all that may not wait for a pause of the user."""
        while self._asked and not self._closed:
            steps = self._asked.popleft()(self._made) if self._made else None
            while steps and self._take(steps):
                pass

    def _finish(self, work: Work) -> None:
        """Take all steps of a piece of work, unless nobody is left who wants it."""
        steps, taken = work(self._made) if self._made else None, 0
        while steps and not self._closed and self._step(steps):
            taken += 1
        if taken >= MANY_STEPS:
            release_memory()

    def _step(self, steps: Steps) -> bool:
        """Take one step once the user pauses; return whether there are more."""
        end = monotonic() + PATIENCE
        while self._is_typing() and monotonic() < end and not self._closed:
            with self._changed:
                self._changed.wait(LOOK)
            self._do_asked()
        return self._take(steps)

    def _take(self, steps: Steps) -> bool:
        """Take one step; return whether there are more."""
        try:
            next(steps)
        except StopIteration:
            return False
        except Exception as error:  # completions go on with the published counts
            logger.error("a step of indexing the workspace failed", exc_info=error)
            return False
        return True
