"""What this machine offers: a usable GPU, free memory, and how fast one thread reads it; memory goes back to it."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt
import psutil

LEAST_CAPABILITY = (8, 0)  # before that, GPUs have no bf16
M_ARENA_MAX = -8  # of glibc's malloc.h: how many heaps there may be
PROBE_BYTES = 128 << 20  # bytes: more than most caches hold
CUDA_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def cuda_missing() -> str | None:
    """Return why no model can run on a GPU here, or None if one can; imports torch only where there is a driver."""
    if not has_cuda_driver():
        return "there is no NVIDIA GPU with a driver"
    if not find_spec("torch"):
        return f"torch is not installed: run {install_command('torch')}"
    import torch

    if torch.version.cuda is None:
        return "this build of torch has no CUDA"
    if not torch.cuda.is_available():
        return "there is no usable NVIDIA GPU"
    if not _new_enough():
        cards = ", ".join(map(describe_gpu, range(torch.cuda.device_count())))
        return f"bf16 needs compute capability {_dotted(LEAST_CAPABILITY)}, and there is only {cards}"
    if not find_spec("xformers"):
        return "xformers is not installed: run pip install -c constraints-gpu.txt '.[gpu]' in a clone of efim-ls"
    return None


def install_command(package: str) -> str:
    """Return the command that installs a package where this process finds it: the user's `pip` may be another's."""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    if PathFinder.find_spec("pip"):  # any other way to ask would make setuptools unfit for this process
        return f"{python} -m pip install {package}"
    return f"uv pip install --python {python} {package}"  # which leaves pip out of the environments that it makes


def has_cuda_driver() -> bool:
    """Return whether the library is here through which torch finds GPUs."""
    try:
        ctypes.CDLL(CUDA_DRIVER)
    except OSError:
        return False
    return True


def roomiest_gpu() -> int:
    """Return the index of the GPU with the most free memory among those that have bf16; 0 if there is none.

    With several GPUs, asking one for its free memory takes a few hundred MB of it until the process ends.
    """
    usable = _new_enough() if cuda_missing() is None else []
    return max(usable, key=free_gpu_memory) if len(usable) > 1 else next(iter(usable), 0)


def free_gpu_memory(index: int) -> int:
    """Return the bytes that are free on a GPU."""
    import torch

    return torch.cuda.mem_get_info(index)[0]


def gpu_name(index: int) -> str:
    """Return a GPU's name."""
    import torch

    return torch.cuda.get_device_name(index)


def describe_gpu(index: int) -> str:
    """Return a GPU's name and compute capability, which decides which kernels it can run."""
    import torch

    return f"{gpu_name(index)} (compute capability {_dotted(torch.cuda.get_device_capability(index))})"


def _new_enough() -> list[int]:
    import torch

    return [i for i in range(torch.cuda.device_count()) if torch.cuda.get_device_capability(i) >= LEAST_CAPABILITY]


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def cuda_state() -> str:
    """Describe the GPUs, or say why none can be used."""
    reason = cuda_missing()
    if reason and not (has_cuda_driver() and find_spec("torch")):
        return reason
    import torch

    cards = ", ".join(map(describe_gpu, range(torch.cuda.device_count())))
    if reason is None:
        return f"{cards}, CUDA {torch.version.cuda}"
    return reason if not cards or cards in reason else f"{cards} is there, but {reason}"


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that the system and this process' cgroups have left.

    Pages of files count as free: the system reclaims them.
    """
    return max(0, min(psutil.virtual_memory().available, *_left_in_cgroups(root)))


def releasable_memory() -> int:
    """Return the most bytes that this process could release: its memory that no file backs and no other shares."""
    process = psutil.Process()
    if sys.platform == "linux":
        memory = process.memory_info()
        return memory.rss - memory.shared
    return process.memory_full_info().uss  # on Linux it would take milliseconds, and count unchanged pages of files


def share_heap() -> None:
    """Let all threads of this process allocate from one heap, where the C library is glibc.

    By default each thread gets its own heap, where a few live objects keep the memory that ended threads have freed.
    """
    with suppress(OSError, AttributeError):  # other C libraries
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def release_memory() -> None:
    """Free what only cycles hold, and return freed memory to the system, of which glibc keeps some tens of MB.

    Takes some hundredths of a second.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # other C libraries
        ctypes.CDLL(None).malloc_trim(0)


def memory_bandwidth() -> float:
    """Measure the bytes a second that one thread reads beyond what caches hold: the bound of decoding one token."""
    numbers = np.ones(PROBE_BYTES // 4, dtype=np.float32)
    return PROBE_BYTES / min(_seconds_to_read(numbers) for _ in range(4))


def _seconds_to_read(numbers: npt.NDArray[np.float32]) -> float:
    began = perf_counter()
    numbers.max()
    return perf_counter() - began


def cpu_name() -> str:
    """Return the name that the CPU gives itself."""
    lines = text_of(Path("/proc/cpuinfo")).splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, f"{platform.machine()} {platform.processor()}")


def _left_in_cgroups(root: Path) -> Iterator[int]:
    """Yield what each of the process' cgroups, and of those above it, has left; first a bound that is none.

    psutil knows the system's memory, not the limits of containers and services.
    """
    yield sys.maxsize
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _left(root / "sys/fs/cgroup", path, "memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
            yield from _left(root / "sys/fs/cgroup/memory", path, *names)


def _left(mount: Path, path: str, limit: str, usage: str, prefix: str) -> Iterator[int]:
    group = mount / path.strip("/")
    for folder in (group, *group.parents):
        bound, used = text_of(folder / limit).strip(), text_of(folder / usage).strip()
        if bound.isdecimal() and used.isdecimal():
            stat = _numbers(folder / "memory.stat")
            of_files = sum(stat.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
            yield int(bound) - int(used) + of_files
        if folder == mount:
            return


def _numbers(path: Path) -> dict[str, int]:
    words = (line.split() for line in text_of(path).splitlines())
    return {name: int(value) for name, value, *_ in (each for each in words if len(each) > 1) if value.isdecimal()}


def text_of(path: Path) -> str:
    """Return a file's text, empty if this system has no such file or does not show it."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:  # not Linux, another version of cgroups, or a group whose files are not shown inside of it
        return ""
