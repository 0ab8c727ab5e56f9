"""How many threads compute a model if the settings leave that to the server, by what the machine says of its CPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from math import ceil, floor, inf
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

from model_runtime.machine import text_of

LARGE = 100_000_000  # parameters from which a second core saves more than it costs others
MOST_THREADS = 8  # more wait for memory

Threads = Literal["auto"] | int


class Cpus(NamedTuple):
    """The CPUs of a machine, by the kernel's numbers.

    This process may run on the `usable` ones. `cores` names the physical core of each that is known; the `fast` ones
    are performance cores, none if the kernel tells no kinds apart. `quota` is the time that cgroups grant, in CPUs.
    """

    usable: frozenset[int]
    cores: Mapping[int, tuple[int, int]] = {}
    fast: frozenset[int] = frozenset()
    quota: float = inf

    @property
    def physical(self) -> int:
        """How many physical cores of the fastest kind this process may use."""
        usable = self.usable & self.fast or self.usable
        return len({self.cores.get(cpu, (-1, cpu)) for cpu in usable})


class ThreadChoice(NamedTuple):
    """A number of threads, and why it is that."""

    threads: int
    reason: str


def choose_threads(wanted: Threads, parameters: int, cpus: Cpus) -> ThreadChoice:
    """Return the wanted number of threads or, for `auto`, the number that suits a model of this size."""
    if wanted != "auto":
        return ThreadChoice(wanted, "the setting 'threads' says so")
    if parameters < LARGE:
        return ThreadChoice(1, f"a model of fewer than {LARGE / 1e6:.0f} million parameters gains nothing by more")
    cores = max(1, floor(min(cpus.quota, cpus.physical)))
    why = f"half of {cores} physical cores, rounded up" if cores > 1 else "there is one physical core"
    why += " that performance is for" * bool(cpus.usable & cpus.fast)
    why += ", which is what its cgroup grants" * (cores < cpus.physical)
    why += f", at most {MOST_THREADS}" * (cores > 2 * MOST_THREADS)
    return ThreadChoice(min(MOST_THREADS, ceil(cores / 2)), why)


def read_cpus(root: Path = Path("/")) -> Cpus:
    """Return the CPUs of this machine; where the system does not tell more, as many as it has physical cores."""
    if sys.platform != "linux":
        return Cpus(frozenset(range(psutil.cpu_count(logical=False) or 1)))
    devices = root / "sys/devices"
    topologies = ((cpu, devices / f"system/cpu/cpu{cpu}/topology") for cpu in os.sched_getaffinity(0))
    named = {cpu: (text_of(path / "physical_package_id"), text_of(path / "core_id")) for cpu, path in topologies}
    cores = {cpu: (int(package), int(core)) for cpu, (package, core) in named.items() if package and core}
    fast = frozenset(_numbers(text_of(devices / "cpu_core/cpus")))
    return Cpus(frozenset(named), cores, fast, min(_quotas(root), default=inf))


def _numbers(ranges: str) -> Iterator[int]:
    """Yield the numbers of a list such as `0-3,8`."""
    for part in filter(None, ranges.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _quotas(root: Path) -> Iterator[float]:
    """Yield the CPUs' time that this process' cgroup is granted, and those above it."""
    mount = root / "sys/fs/cgroup"
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        group = mount / path.strip("/")
        for folder in (group, *group.parents) if not controllers else ():
            quota, _, period = text_of(folder / "cpu.max").strip().partition(" ")
            if quota.isdecimal() and period.isdecimal() and int(period):
                yield int(quota) / int(period)
            if folder == mount:
                break
