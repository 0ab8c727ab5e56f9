"""Runs the sides of a speed benchmark in a separate process, which computes on request.

`python -m benchmarks.decoding.process THREADS FOLDER` holds our decoder and transformers; with `THREADS FOLDER own`
our decoder alone, in the formats of weights that follow, and with `THREADS GGUFS gguf` llama.cpp. In one process they
would slow each other down: OpenMP puts workers to sleep between any two products once it has more of them than cores,
and llama.cpp configures the CPU's tile registers once and expects them unchanged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from benchmarks.decoding.sides import UNASKED, Named, Side, of_gguf, of_own, of_transformers
from benchmarks.environment.bandwidth import read_ms
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.tensor_shapes import count_active

CONTEXT = 512  # tokens before a timed pass
LONGEST = 2048
PASSES = 4  # timed in a turn, after an untimed pass
TOKENS = 256  # different ones: any vocabulary has as many
OWN, GGUF = "own", "gguf"
QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}


class Work(NamedTuple):
    """A number of tokens in one pass behind a context; a prefill where there is no context."""

    name: str
    context: int
    tokens: int


Turn = list[tuple[str, list[float]]]  # milliseconds of each side's passes, by the row that it belongs to


class TakesTurns(Protocol):
    """Who holds sides."""

    def turn(self, work: Work, rows: list[str] | None = None, /) -> Turn:
        """Let all sides compute one after the other, or only the sides in `rows`."""
        ...


class Process:
    """The other end of such a process; it has loaded everything once this is made."""

    def __init__(self, threads: int, folder: Path, *kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.decoding.process", str(threads), str(folder), *kind],
            env={**os.environ, **QUIET, "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.model: dict[str, Any] = self._reply()

    def __enter__(self) -> Process:
        """Nothing: it runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def turn(self, work: Work, rows: list[str] | None = None) -> Turn:
        """Let its sides compute one after the other, or only the sides in `rows`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([work, rows]) + "\n")
        self._process.stdin.flush()
        return self._reply()

    def _reply(self) -> Any:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return json.loads(line)
        raise RuntimeError(f"a benchmark's process ended with {self._process.wait()}: its errors are above")


def serve(threads: int, folder: Path, *kind: str) -> None:
    """Load, tell of the model, and compute what each line of stdin asks for."""
    torch.set_num_threads(threads)
    capacity = LONGEST + CONTEXT
    if GGUF in kind:
        loaded = list(of_gguf(folder, threads, capacity))
    else:
        loaded = list(of_own(folder, threads, capacity, kind[1:] or UNASKED))
        if OWN not in kind:
            loaded += of_transformers(folder, CONTEXT)
    print(json.dumps({} if GGUF in kind else _described(folder)), flush=True)
    for line in sys.stdin:
        work, rows = json.loads(line)
        chosen = [each for each in loaded if rows is None or each.name in rows]
        print(json.dumps(turn(chosen, Work(*work))), flush=True)


def _described(folder: Path) -> dict[str, Any]:
    config = read_config(folder)
    return {"layers": len(config.layers), "read_ms": read_ms(count_active(config))}


def turn(loaded: list[Named], work: Work) -> Turn:
    """A prefill of each side, or several short passes after a pass that brings its weights near."""
    return [(each.name, _passes(each.side, work)) for each in loaded]


def _passes(side: Side, work: Work) -> list[float]:
    if not work.context:
        return [_pass_ms(side, work)]
    return [_pass_ms(side, work) for _ in range(1 + PASSES)][1:]


def _pass_ms(side: Side, work: Work) -> float:
    ids = np.arange(work.tokens, dtype=np.int32) % TOKENS
    side.truncate(work.context)
    began = perf_counter()
    side.forward(ids)
    return (perf_counter() - began) * 1e3


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
