"""Passes of the embedded model and of llama.cpp by rows and context: `python -m benchmarks.decoding.contexts`."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.decoding.process import LONGEST, Process, Work
from benchmarks.decoding.sides import LLAMA, OURS, llama_missing
from benchmarks.decoding.speed import timed, write_ggufs
from benchmarks.table import show
from model_runtime.checkpoint.embedded import EMBEDDED

ROWS = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (256, 512, 1100, LONGEST - max(ROWS))  # tokens before a pass
SECONDS = 1.0  # for the turns of one cell


def measure() -> dict[str, Any]:
    """Milliseconds of a pass on one thread by side, context and rows; lower quartiles of turns."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        processes, names = [stack.enter_context(Process(1, EMBEDDED))], [f"{OURS} fp16", f"{OURS} int8"]
        if reason := llama_missing():
            print(f"llama.cpp's rows are missing: {reason}")
        else:
            write_ggufs(EMBEDDED, Path(folder))
            processes.append(stack.enter_context(Process(1, Path(folder), "gguf")))
            names += [f"{LLAMA} F16", f"{LLAMA} Q8_0"]
        for process in processes:
            process.turn(Work("context", 0, LONGEST), names)
        for context in reversed(CONTEXTS):  # a pass leaves what lies before it as it is
            for rows in ROWS:
                for name, ms in timed(processes, Work("pass", context, rows), SECONDS, names).items():
                    found.setdefault(name, {}).setdefault(str(context), {})[str(rows)] = ms
    lines = [
        [f"{name}, {context:,}", *(found[name][str(context)][str(rows)] for rows in ROWS)]
        for context in CONTEXTS
        for name in found
    ]
    show("milliseconds of a pass by rows", ("context", *map(str, ROWS)), lines)
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
