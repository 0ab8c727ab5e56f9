"""Waits for something in another process, without guessing how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

HANG = 60  # seconds after which a test fails rather than wait on
Found = TypeVar("Found")


def eventually(find: Callable[[], Found], wrong: Callable[[], str], within: float = HANG) -> Found:
    """Return the first true value of `find`; if none comes, fail with what is wrong."""
    deadline = time.monotonic() + within
    while not (found := find()):
        assert time.monotonic() < deadline, f"{wrong()}, after {within} s"
        time.sleep(0.02)
    return found
