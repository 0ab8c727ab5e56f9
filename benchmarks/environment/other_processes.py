"""The share of the machine that other processes took meanwhile: figures under other load say little."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

STAT = Path("/proc/stat")
IDLE = (3, 4)  # fields of the line of all CPUs, after its name: idle, waiting for a disk
FIELDS = 8  # those that follow are contained in others


class OtherProcesses:
    """Counts from when it is made; Linux only."""

    def __init__(self) -> None:
        self._began, self._busy = perf_counter(), _busy_of_others()

    def share(self) -> float | None:
        """The part of all CPUs' time that went to others than this process and its children that have ended."""
        now = _busy_of_others()
        if now is None or self._busy is None:
            return None
        return max(0.0, now - self._busy) / (perf_counter() - self._began) / (os.cpu_count() or 1)


def _busy_of_others() -> float | None:
    """Seconds since the machine's start, less an unknown constant."""
    if not STAT.is_file():
        return None
    ticks = [int(field) for field in STAT.read_text().split("\n")[0].split()[1 : 1 + FIELDS]]
    busy = sum(count for field, count in enumerate(ticks) if field not in IDLE)
    return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
