"""Watches folders for editors that do not: reports the files that changed on disk.

Watched are the folders that a walk enters, each by itself: watching all that lies below a workspace folder would take
in what git ignores, and follow links out of it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Generator
from pathlib import Path

from watchfiles import watch

from efim_ls.workspace.files.discovery import ENVIRONMENT, entered_folders, is_entered

STEP = 500  # milliseconds between looks for changes, the only work while there are none
SETTLED = 2_000  # milliseconds without changes, after which a new watch counts as started
NOTHING = frozenset[str]()
WATCHING = "watcher"  # the thread's name
DECIDING = frozenset({".gitignore", ENVIRONMENT})  # files that decide whether a walk enters folders

logger = logging.getLogger(__name__)


class FileWatcher:
    """Watches folders on a separate thread until it is closed."""

    def __init__(self, folders: Collection[Path], changed: Callable[[list[str]], None]) -> None:
        """Call `changed` with paths of files or folders, on the watcher's thread."""
        self._folders, self._changed, self._ended = folders, changed, threading.Event()
        self._thread = threading.Thread(target=self._run, name=WATCHING, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reporting; the thread ends soon after."""
        self._ended.set()

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:
            cause, remedy = _explained(error)
            logger.warning(
                "the workspace cannot be watched (%s), so files that other programs change are not read again until "
                "a restart: %s",
                cause,
                remedy,
            )

    def _watch(self) -> None:
        """Report what changes in the folders that a walk enters, whichever these are at the time.

        Other folders are watched before the earlier ones no longer are, so that nothing is missed between. A folder
        that was removed and made again is watched no longer: those that a report names count as not watched.
        """
        watched: frozenset[str] = frozenset()
        reports: Generator[frozenset[str]] = self._nothing()
        is_begun = False
        while not self._ended.is_set():
            entered = self._entered()
            if not entered or entered != watched:
                later = self._reports(entered) if entered else self._nothing()
                try:
                    since = next(later, NOTHING)
                except FileNotFoundError:  # a folder is gone since the walk
                    later.close()
                    self._ended.wait(STEP / 1000)
                    continue
                before = next(reports, NOTHING) if watched else NOTHING
                reports.close()
                self._tell(since | before | (entered - watched if is_begun else NOTHING))
                watched, reports, is_begun = entered - since, later, True
                continue  # with another walk: a folder may have come before its parent was watched
            for paths in reports:
                self._tell(paths)
                if any(self._may_decide(path, watched) for path in paths):
                    watched -= paths
                    break

    def _entered(self) -> frozenset[str]:
        """Return the folders that a walk of the workspace enters now."""
        return frozenset(path for folder in self._folders for path in entered_folders(folder) if os.path.isdir(path))

    def _reports(self, folders: frozenset[str]) -> Generator[frozenset[str]]:
        """Yield the paths that change in folders, none after each SETTLED in which nothing does.

        Raises FileNotFoundError if a folder is gone.
        """
        for changes in watch(
            *folders,
            watch_filter=None,  # the callback filters
            step=STEP,
            rust_timeout=SETTLED,
            yield_on_timeout=True,
            stop_event=self._ended,
            recursive=False,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            yield frozenset(path for _, path in changes)

    def _nothing(self) -> Generator[frozenset[str]]:
        """Yield nothing, again and again, where there is no folder to watch."""
        while not self._ended.wait(SETTLED / 1000):
            yield NOTHING

    def _tell(self, paths: frozenset[str]) -> None:
        if paths:
            self._changed(sorted(paths))

    def _may_decide(self, path: str, watched: frozenset[str]) -> bool:
        """Return whether a change at a path may mean that other folders are to be watched."""
        if path in watched or os.path.basename(path) in DECIDING:
            return True
        return any(is_entered(path, folder) for folder in self._folders)


def _explained(error: Exception) -> tuple[str, str]:
    """Return why folders cannot be watched, and the remedy."""
    message = str(error)  # the library tells limits of the system by words alone
    if "watch limit" in message:
        return "the system watches no more folders", "raise fs.inotify.max_user_watches, or open a smaller folder"
    if "Too many open files" in message:
        return "too many files are open", "raise fs.inotify.max_user_instances or `ulimit -n`, or close some editors"
    return type(error).__name__, "restart the server"
