"""What users are told when the cache on disk fails: once for each cause, with what helps."""

from __future__ import annotations

import errno
from collections.abc import Callable

from kv_store.disk.header import SegmentError
from kv_store.disk.segment import FORBIDDEN

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
VANISHED = "the cache on disk was removed or replaced while a server runs, and begins anew"
DAMAGED = "damaged blocks in the cache on disk are computed anew: check the disk if this happens again"
READ_ONLY = "the cache on disk may not be written, so nothing is added: make it writable or set cache_folder"
TOO_SMALL = "the cache on disk may not even hold one block, so there is none: raise disk_mib"
NOT_HERE = "there is no cache on disk on this system: what is kept ends with the server"

Failure = OSError | SegmentError


class Complaints:
    """Passes each sentence on the first time; on any thread. None has a path or a text of the user's in it."""

    def __init__(self, report: Callable[[str], None]) -> None:
        """Tell whom to report to; `said` is what was reported so far."""
        self.said: list[str] = []
        self._report = report

    def say(self, sentence: str) -> None:
        """Tell what was found."""
        if sentence not in self.said:
            self.said.append(sentence)
            self._report(sentence)

    def begins_anew(self, error: SegmentError) -> None:
        """Tell why a file is put in place of another; all that was in that is lost."""
        self.say(f"the cache on disk begins anew: {error}")

    def failed(self, done: str, error: Failure) -> None:
        """Tell why something could not be done."""
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        number = error.errno if isinstance(error, OSError) else None
        if number in FORBIDDEN:
            self.say(READ_ONLY)
        elif number in NO_ROOM:
            self.say(f"blocks cannot be kept on disk ({reason}): make room, or lower disk_mib")
        else:
            self.say(f"the cache on disk cannot be {done} ({reason}): mend its folder, or set cache_folder")
