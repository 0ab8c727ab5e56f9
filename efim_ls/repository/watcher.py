"""Watches folders for editors that do not: reports the files that changed on disk."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from watchfiles import watch

STEP = 500  # milliseconds between looks for changes, the only work while there are none

logger = logging.getLogger(__name__)


class FileWatcher:
    """Reports changes below some folders, on a daemon thread of its own, until it is closed."""

    def __init__(self, folders: Collection[Path], changed: Callable[[list[str]], None]) -> None:
        """Call `changed` with paths of files or folders, on the watcher's thread."""
        self._folders, self._changed, self._ended = folders, changed, threading.Event()
        threading.Thread(target=self._watch, name="watcher", daemon=True).start()

    def close(self) -> None:
        """Stop reporting; the thread ends soon after."""
        self._ended.set()

    def _watch(self) -> None:
        try:
            for changes in watch(
                *self._folders,
                watch_filter=None,  # whoever is told knows what matters
                step=STEP,
                stop_event=self._ended,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                self._changed(sorted({path for _, path in changes}))
        except Exception as error:  # too many folders for the system's limit, or a folder that is gone
            logger.warning(
                "the workspace cannot be watched (%s), so files that other programs change are not read again until "
                "a restart: raise fs.inotify.max_user_watches, or open a smaller folder",
                type(error).__name__,
            )
