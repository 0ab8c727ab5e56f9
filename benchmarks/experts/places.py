"""A mixture whose experts memory has no room for: a token's time, compared with a mixture in memory.

`python -m benchmarks.experts.places FOLDER FILE POLICY SLOTS` is one side, in a separate process whose memory the
system limits: it prints a JSON line with the milliseconds of its tokens and the bytes that it read.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import psutil

from benchmarks.decoding.shapes import MIXTURE, checkpoint
from benchmarks.table import show
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.checkpoint.weights import Fp32, read_weights
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.kv.arena import DenseArena
from model_runtime.shelves.experts_on_disk.experts import Numbers, Schedule
from model_runtime.shelves.experts_on_disk.file import ExpertRecord
from model_runtime.shelves.experts_on_disk.placement import ExpertPlacement

SHARE = 4  # memory has room for this part of the experts
MOST = 2.5  # times the time of a token whose experts are all in memory
PROMPT, TOKENS = 256, 256
CONTEXT = PROMPT + TOKENS
GROUPS = Path("/sys/fs/cgroup")
MIB = 1 << 20
HEADER = ("", "ms a token", "times that in memory", "MB read a token")
KEPT_PAGES = 64 * MIB  # in addition to a process' memory: the system reads files through them


class LeastRecentlyUsed(Schedule):
    """Keeps the experts used last, and reads nothing ahead."""

    def __init__(self, layers: int, count: int, chosen: int, slots: int) -> None:
        super().__init__(layers, count, chosen, slots)
        self._clock = 0

    def count_tokens(self, layer: int, scores: Fp32, wanted: Numbers) -> None:
        """Note when the experts that these tokens choose were used."""
        self._clock += 1
        self._worth[layer, wanted] = self._clock

    def guess(self, layer: int, scores: Fp32) -> list[int]:
        """Return none."""
        return []


POLICIES = {"by scores, read ahead": Schedule, "least recently used": LeastRecentlyUsed}
IN_MEMORY = "all in memory"


def measure() -> dict[str, Any]:
    """Milliseconds of a token by policy, and times those in memory; a limit takes an administrator."""
    if not os.access(_groups(), os.W_OK):
        return {"missing": f"no group with a limit can be made in {_groups()}: run it as root"}
    with tempfile.TemporaryDirectory() as temporary:
        folder, file = checkpoint(MIXTURE, Path(temporary) / "model"), Path(temporary) / "experts.safetensors"
        whole = _run(folder, file, IN_MEMORY, 0, None)
        config = read_config(folder)
        experts = next(layer.mlp for layer in config.layers if isinstance(layer.mlp, Experts))
        record, count = ExpertRecord(config.hidden, experts, "int8").bytes, len(config.layers) * experts.count
        limit = int(whole["resident"]) - record * (count - count // SHARE) + KEPT_PAGES
        found = {IN_MEMORY: whole}
        for policy in POLICIES:
            _run(folder, file, policy, count // SHARE, None)  # makes the file
            found[policy] = _run(folder, file, policy, count // SHARE, limit)
    times = {policy: each["ms"] / whole["ms"] for policy, each in found.items()}
    rows = [(policy, each["ms"], times[policy], each["read"] / 1e6) for policy, each in found.items()]
    show(f"experts on disk: memory has room for one of {SHARE}, {limit / 1e6:,.0f} MB in all", HEADER, rows)
    return {"policies": found, "times": times, "met": times[next(iter(POLICIES))] <= MOST}


def _run(folder: Path, file: Path, policy: str, slots: int, limit: int | None) -> dict[str, float]:
    """Run one side, in `limit` bytes of memory."""
    command = [sys.executable, "-m", "benchmarks.experts.places", str(folder), str(file), policy, str(slots)]
    if limit is None:
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    with file.open("rb") as opened:  # what the system has of it in memory is not the limited process' own
        os.fsync(opened.fileno())  # pages that are not written yet could not be given up
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with _limited(limit) as group:
        entering = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
        return json.loads(subprocess.run([*entering, *command], check=True, stdout=subprocess.PIPE).stdout)


def _groups() -> Path:
    """Return where groups with limits of memory are, of either version of Linux's."""
    return GROUPS if (GROUPS / "cgroup.controllers").exists() else GROUPS / "memory"


@contextmanager
def _limited(limit: int) -> Iterator[Path]:
    """Make a control group of `limit` bytes."""
    group = _groups() / f"efim-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.max" if _groups() == GROUPS else "memory.limit_in_bytes")).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def _side(folder: Path, file: Path, policy: str, slots: int) -> dict[str, float]:
    """Compute a prompt and then one token after the other."""
    config = read_config(folder)
    weights = read_weights(folder, config)
    placement = None
    if policy in POLICIES:
        placement = ExpertPlacement(file, "benchmark", slots, POLICIES[policy])
    decoder = NativeDecoder(config, weights, "int8", min(2, os.cpu_count() or 1), keeper=placement)
    weights.release()
    text = np.frombuffer(inspect.getsource(argparse).encode(), np.uint8).astype(np.int32)[:CONTEXT]
    arena = DenseArena(config, CONTEXT)
    decoder.forward(text[:PROMPT], arena)
    before, times = psutil.Process().io_counters().read_bytes, list[float]()
    for at in range(PROMPT, CONTEXT):
        began = perf_counter()
        decoder.forward(text[at : at + 1], arena)
        times.append((perf_counter() - began) * 1e3)
    read = psutil.Process().io_counters().read_bytes - before
    return {"ms": median(times), "read": read / TOKENS, "resident": psutil.Process().memory_info().rss}


if __name__ == "__main__":
    print(json.dumps(_side(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
