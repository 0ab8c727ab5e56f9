"""Larger models give way: by the priority of their threads, and to every answer that a key waits for."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress

from model_runtime.decoder.native import library

NICENESS = 10  # of a thread: about a tenth of the processor's time where others want all of it
MANY = 1 << 20  # answers, more than are ever under way


def give_way() -> None:
    """Have passes of this thread wait for answers, and lower its priority: on Linux, unless a sandbox forbids it."""
    library.give_way()
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


def answering() -> AbstractContextManager[None]:
    """Have threads that give way wait between the parts of their passes."""
    return _counted(1)


def hurrying() -> AbstractContextManager[None]:
    """Let threads that give way go on even while keys wait: the caller waits for such a thread."""
    return _counted(-MANY)


@contextmanager
def _counted(answers: int) -> Generator[None]:
    library.count_answers(answers)
    try:
        yield
    finally:
        library.count_answers(-answers)
