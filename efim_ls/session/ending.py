"""How the process of a server ends: at which signals, and at once where a thread would go on."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

# The last is a terminal's that closes; Windows lacks it.
ENDING = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]


def exit_at_once(code: int) -> NoReturn:
    """End the process while a thread runs: one inside torch aborts it when the interpreter is taken down."""
    sys.stderr.flush()
    os._exit(code)
