"""The process of a server: its log on stderr, and how it ends, at once where a thread would go on."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from types import TracebackType
from typing import NoReturn

# The last is a terminal's that closes; Windows lacks it.
ENDING = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]


def exit_at_once(code: int) -> NoReturn:
    """End the process while a thread runs: one inside torch aborts it when the interpreter is taken down."""
    sys.stderr.flush()
    os._exit(code)


def log_to_stderr() -> None:
    """Log warnings and errors, without what users type."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(DiscreetFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class DiscreetFormatter(logging.Formatter):
    """Formats records without what users type: arguments that may hold it, and the messages of exceptions."""

    def format(self, record: logging.LogRecord) -> str:
        """Replace arguments that are neither text nor numbers, such as pygls' params, by their types.

        asyncio's own messages are replaced: they quote futures, which quote the errors they failed with.
        """
        if record.name == "asyncio":
            record.msg, record.args = "an error outside any request", ()
        if isinstance(record.args, tuple):
            record.args = tuple(a if isinstance(a, (str, int)) else type(a).__name__ for a in record.args)
        return super().format(record)

    def formatException(  # noqa: N802
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        """Return an exception's type and traceback, without its message."""
        kind, _, frames = ei
        return "".join(traceback.format_tb(frames)) + (kind.__name__ if kind else "")
