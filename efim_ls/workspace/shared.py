"""The indexes that are in memory, and what one client has of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from efim_ls.workspace.files.context import ClientContext, RetrievalPlace
from efim_ls.workspace.index import Question, Scope
from efim_ls.workspace.overlay import IndexStatus, Overlay
from efim_ls.workspace.thread import IndexThread
from model_runtime.counts.snapshot import CountsView

T = TypeVar("T")


class SharedIndexes:
    """The indexes that clients use now, one for all clients of the same scope. Used on any thread."""

    def __init__(self, is_typing: Callable[[], bool]) -> None:
        """Let indexes wait while a user is typing."""
        self._is_typing, self._lock = is_typing, threading.Lock()
        self._threads = dict[Scope, IndexThread]()
        self._ending = list[IndexThread]()

    def join(self, scope: Scope, overlay: Overlay) -> IndexThread:
        """Return the index of a scope, which publishes for a client from now on."""
        with self._lock:
            if scope not in self._threads:
                self._ending = [each for each in self._ending if not each.ended(0)]
                self._threads[scope] = IndexThread(scope, self._is_typing, self._ending)
            self._threads[scope].join(overlay)
            return self._threads[scope]

    def leave(self, thread: IndexThread, overlay: Overlay) -> bool:
        """Forget a client of an index; return whether the index ends, because no other uses it."""
        with self._lock:
            if is_last := thread.leave(overlay):
                del self._threads[thread.scope]
                self._ending.append(thread)
            return is_last


class IndexClient:
    """What one client has of its workspace's index: the one of its scope, and an overlay of its open documents.

    Its methods return at once. If `watches` is set, changes on disk are noticed here.
    """

    def __init__(
        self,
        indexes: SharedIndexes,
        on_status: Callable[[IndexStatus], None],
        on_context: Callable[[], None] = lambda: None,
    ) -> None:
        """Start with nothing to index. Callbacks are called on the index's thread, and must not raise."""
        self.watches = False
        self._indexes, self._on_status, self._on_context = indexes, on_status, on_context
        self._thread: IndexThread | None = None
        self._overlay = Overlay()

    def adopt(self, scope: Scope | None) -> bool:
        """Use the index of a scope, None for none, in place of another; return whether that is new.

        Files read under earlier rules are out of the next view.
        """
        if is_new := scope != (self._thread.scope if self._thread else None):
            self.leave()
            self._overlay = Overlay(self._on_status, self._on_context)
            self._thread = self._indexes.join(scope, self._overlay) if scope else None
        if self.watches and self._thread:
            self._thread.watch()
        return is_new

    def refresh(self, paths: Iterable[str]) -> None:
        """Read files or folders again that may have changed on disk."""
        if self._thread:
            self._thread.refresh(paths)

    def open(self, path: str, language: str, text: str) -> None:
        """Count an open document's text in place of its file's, or a newer text in place of an older one."""
        overlay = self._overlay
        if self._thread:
            self._thread.post(lambda index: index.open(overlay, path, language, text))

    def close_document(self, path: str) -> None:
        """Count a file's own text again."""
        overlay = self._overlay
        if self._thread:
            self._thread.post(lambda index: index.close_document(overlay, path))

    def retrieve(self, place: RetrievalPlace) -> None:
        """Look up the code most similar to a place, unless a later place comes first, for `context` to show."""
        if self._thread:
            self._thread.retrieve(self._overlay, place)

    def ask(self, question: Question[T], found: Callable[[T], None], waits_for_pause: bool = True) -> bool:
        """Ask a question about the workspace's files, and call `found` with the answer on the index's thread.

        It is answered in a pause of the user unless it takes only a few milliseconds. Return whether there is an
        index; questions while it ends are never answered.
        """
        if self._thread:
            self._thread.post(lambda index: index.answer(question, found), at_once=not waits_for_pause)
        return self._thread is not None

    def view(self, family: str, without: Collection[str]) -> CountsView | None:
        """Return the counts of a family of languages, less some files by their real paths; None without any."""
        counts = self._overlay.counts.get(family)
        return counts.without(without) if counts and counts.tokens else None

    @property
    def context(self) -> ClientContext:
        """What prompts may show of other files."""
        return self._overlay.context

    @property
    def status(self) -> IndexStatus | None:
        """The state of the index; None without one."""
        return self._overlay.status

    def wait(self, seconds: float) -> bool:
        """Wait until everything posted is done; return whether it is within `seconds`."""
        return self._thread is None or self._thread.wait(seconds)

    def leave(self) -> IndexThread | None:
        """Stop using the index; return its thread if it ends, because no other client uses it."""
        thread, overlay, self._thread, self._overlay = self._thread, self._overlay, None, Overlay()
        return thread if thread and self._indexes.leave(thread, overlay) else None

    def close(self, seconds: float) -> bool:
        """Stop using the index; return false if its thread should end and is still running after `seconds`."""
        ending = self.leave()
        return ending is None or ending.ended(seconds)
