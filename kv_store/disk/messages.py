"""Messages to users when the cache on disk fails: the cause, then the remedy. None has a path in it."""

from __future__ import annotations

import errno

from kv_store.disk.block_file import FORBIDDEN_ERRNOS
from kv_store.disk.header import BlockFileError

NO_ROOM_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
VANISHED = "the cache on disk was removed or replaced while a server was running; a new one is started"
DAMAGED = "the cache on disk has damaged blocks, which are computed again; check the disk if this happens often"
READ_ONLY = "the cache on disk is read-only, so nothing is added to it; make it writable or set cache_folder"
TOO_SMALL = "disk_mib is too small for one block; raise it"
UNSUPPORTED = "this system does not support the cache on disk; the cache is lost when the server ends"


def discarded(error: BlockFileError) -> str:
    """Say why an existing file is replaced by an empty one."""
    return f"the cache on disk is discarded and a new one is started: {error}"


def failed(action: str, error: OSError | BlockFileError) -> str:
    """Say why the cache on disk could not be `action` (used, read, written, erased), and what to do about it."""
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    number = error.errno if isinstance(error, OSError) else None
    if number in FORBIDDEN_ERRNOS:
        return READ_ONLY
    if number in NO_ROOM_ERRNOS:
        return f"the cache on disk cannot grow ({reason}); free some space or lower disk_mib"
    return f"the cache on disk cannot be {action} ({reason}); repair its folder or set cache_folder"
