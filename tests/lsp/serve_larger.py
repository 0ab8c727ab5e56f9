"""The server with its real models, of which the named one counts as larger, and waits at a gate if there is one.

The gate is a pipe at the path in `GATE`. While it is there, the larger model begins no text before somebody has
opened the pipe and closed it again.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

from efim_ls.lsp.server import serve
from model_runtime.cancel import Cancel, Cancelled
from model_runtime.engine.engine import GenerateJob, Generation
from model_runtime.engine.local import LocalEngine
from model_runtime.loading import threads
from model_runtime.remote import setting
from tests.waiting import HANG

generate = LocalEngine.generate


def generate_behind_gate(self: LocalEngine, job: GenerateJob, cancel: Cancel) -> Generation:
    if not threading.current_thread().name.startswith("larger model"):
        return generate(self, job, cancel)
    with suppress(FileNotFoundError), open(os.environ["GATE"]) as gate:
        gate.read()
    try:
        return generate(self, job, cancel)
    except Cancelled:
        print("the larger model is stopped")
        raise


if __name__ == "__main__":
    setting.MOST_SECONDS = HANG
    threads.LARGE = 100_000
    LocalEngine.generate = generate_behind_gate
    sys.exit(serve())
