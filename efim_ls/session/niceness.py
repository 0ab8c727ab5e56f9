"""How far the model's threads make way for other programs, by what the system offers."""

from __future__ import annotations

import logging
import os
import sys

logger = logging.getLogger(__name__)


def describe(niceness: int) -> dict[str, object]:
    """What `make_way` does here, and why."""
    return {"niceness": niceness, "niceness_reason": _reason(niceness)}


def make_way(niceness: int) -> None:
    """Give the calling thread, and those it will start, at least this niceness; 0 changes nothing.

    A system lets a niceness be raised, never lowered again. It holds for the whole process where threads have none
    of their own. Where Linux groups processes by session (autogroup), it weighs against those of the same one only.
    """
    if sys.platform == "win32":
        return
    try:  # 0 is the calling thread for Linux, the process elsewhere
        if niceness > max(0, os.getpriority(os.PRIO_PROCESS, 0)):
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
    except OSError as error:
        logger.warning("the niceness stays as it was (%s): set it for the whole server, by nice", error.strerror)


def _reason(niceness: int) -> str:
    if niceness == 0:
        return "a key waits for the model: it competes like any other program"
    if sys.platform == "win32":
        return "asked for by the setting, in vain: this system has none"
    if sys.platform == "linux":
        return "asked for by the setting; the model's threads alone: editors are heard at the usual priority"
    return "asked for by the setting; the whole process: here threads have none of their own"
