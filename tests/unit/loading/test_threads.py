"""How many threads compute a model, by the cores that the kernel names and the time that cgroups grant."""

from __future__ import annotations

import os
import sys
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.loading import threads
from model_runtime.loading.threads import LARGE, MOST_THREADS, Cpus, choose_threads, read_cpus

numbers = st.integers(0, 63)


@st.composite
def machines(draw: st.DrawFn) -> Cpus:
    usable = draw(st.frozensets(numbers, min_size=1))
    cores = draw(st.dictionaries(numbers, st.tuples(st.integers(0, 1), st.integers(0, 31))))
    quota = draw(st.one_of(st.just(inf), st.floats(0.01, 100)))
    return Cpus(usable, cores, draw(st.frozensets(numbers)), quota)


@given(machines(), st.integers(1, 1 << 36))
def test_a_number_in_the_settings_stays(cpus: Cpus, parameters: int) -> None:
    for wanted in (1, 2, 64):
        assert choose_threads(wanted, parameters, cpus).threads == wanted


@given(machines(), st.integers(0, LARGE - 1))
def test_small_models_have_one(cpus: Cpus, parameters: int) -> None:
    assert choose_threads("auto", parameters, cpus).threads == 1


@given(machines(), st.integers(LARGE, 1 << 40))
def test_larger_ones_take_half_of_the_cores_and_never_all_of_several(cpus: Cpus, parameters: int) -> None:
    chosen = choose_threads("auto", parameters, cpus)
    fast = cpus.usable & cpus.fast or cpus.usable
    cores = {cpus.cores.get(cpu, cpu) for cpu in fast}
    granted = min(len(cores), cpus.quota)
    assert 1 <= chosen.threads <= MOST_THREADS
    assert chosen.threads == 1 or chosen.threads < granted
    assert chosen.threads == MOST_THREADS or 2 * chosen.threads >= granted - 1
    assert chosen.reason.startswith("half of ") == (granted >= 2)


@given(machines(), st.integers(LARGE, 1 << 40), st.floats(0.01, 100))
def test_less_time_is_never_more_threads(cpus: Cpus, parameters: int, quota: float) -> None:
    less, more = (cpus._replace(quota=each) for each in sorted((cpus.quota, quota)))
    counts = [choose_threads("auto", parameters, each).threads for each in (less, more)]
    assert counts == sorted(counts)


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 1), (3, 2), (4, 2), (6, 3), (16, 8), (64, 8)])
def test_the_rule(cores: int, expected: int) -> None:
    assert choose_threads("auto", LARGE, Cpus(frozenset(range(cores)))).threads == expected


def machine(root: Path, topology: list[tuple[int, int]], **files: str) -> Path:
    """The files that a kernel shows: package and core of each CPU, and others by their paths."""
    for cpu, (package, core) in enumerate(topology):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text(f"{core}\n")
    for name, text in files.items():
        path = root / {"fast": "sys/devices/cpu_core/cpus", "groups": "proc/self/cgroup"}.get(name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def affinity(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The CPUs that this process may run on."""
    usable = set[int]()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    return usable


def test_threads_of_a_core_count_once(affinity: set[int], tmp_path: Path) -> None:
    affinity |= set(range(8))
    cpus = read_cpus(machine(tmp_path, [(cpu // 4, cpu % 2) for cpu in range(8)]))
    assert (cpus.physical, cpus.quota) == (4, inf), "two packages of two cores of two threads"
    affinity -= {0, 1, 2, 3}
    assert read_cpus(tmp_path).physical == 2


def test_where_the_kernel_tells_kinds_the_fast_cores_count(affinity: set[int], tmp_path: Path) -> None:
    affinity |= set(range(12))
    topology = [(0, cpu // 2) for cpu in range(4)] + [(0, cpu) for cpu in range(4, 12)]
    cpus = read_cpus(machine(tmp_path, topology, fast="0-3\n"))
    assert cpus.physical == 2
    assert "that performance is for" in choose_threads("auto", LARGE, cpus).reason
    affinity -= {0, 1, 2, 3}
    assert read_cpus(tmp_path).physical == 8, "where only the others may be used, they count"


def test_the_narrowest_of_all_cgroups_bounds(affinity: set[int], tmp_path: Path) -> None:
    affinity |= set(range(16))
    machine(tmp_path, [(0, cpu) for cpu in range(16)], groups="1:cpu:/old\n0::/user/editor\n")
    group = tmp_path / "sys/fs/cgroup/user/editor"
    group.mkdir(parents=True)
    for folder, quota in ((group, "800000"), (group.parent, "350000"), (group.parents[1], "max")):
        (folder / "cpu.max").write_text(f"{quota} 100000\n")
    cpus = read_cpus(tmp_path)
    assert cpus.quota == 3.5
    chosen = choose_threads("auto", LARGE, cpus)
    assert chosen.threads == 2 and "its cgroup grants" in chosen.reason


def test_a_kernel_that_shows_nothing_has_a_core_for_each_cpu(affinity: set[int], tmp_path: Path) -> None:
    affinity |= {2, 5, 7}
    assert read_cpus(tmp_path) == Cpus(frozenset({2, 5, 7}))


def test_other_systems_say_how_many_physical_cores_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    for said, expected in ((10, 10), (None, 1)):
        monkeypatch.setattr(threads.psutil, "cpu_count", lambda logical, said=said: said)
        assert read_cpus().physical == expected


def test_this_machine_is_read() -> None:
    cpus = read_cpus()
    assert 1 <= cpus.physical <= (os.cpu_count() or 1)
    assert choose_threads("auto", LARGE, cpus).threads >= 1
