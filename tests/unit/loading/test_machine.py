"""What memory a process may still take, by files as systems have them; and what fits into it."""

from __future__ import annotations

import mmap
import os
import platform
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model_runtime import machine
from model_runtime.checkpoint.config import parse_config
from model_runtime.checkpoint.families.layer_spec import GATE_INPUTS, Dense
from model_runtime.decoder.gpu.device import (
    GPU_RESERVE,
    MIB,
    GpuFormat,
    GpuNeed,
    choose_device,
    most_weight_bytes,
    weight_bytes,
)
from model_runtime.errors import ModelError
from model_runtime.loading.known_models import KNOWN_MODELS, largest_within
from model_runtime.loading.memory_fit import (
    FORMAT_BYTES,
    FitRequest,
    ModelSize,
    does_not_fit,
    fitting_formats,
    memory_need,
    model_size,
    usable_formats,
    usable_gpu_formats,
)
from model_runtime.machine import available_memory, memory_bandwidth, releasable_memory
from tests.models import reshaped

GIB = 1 << 30
FREE = 8 * GIB
LLAMA = parse_config(
    {
        "model_type": "llama", "vocab_size": 8192, "hidden_size": 320, "num_hidden_layers": 8, "head_dim": 64,
        "num_attention_heads": 5, "num_key_value_heads": 1, "intermediate_size": 864, "tie_word_embeddings": True,
    }
)  # fmt: skip
sizes = st.builds(ModelSize, st.integers(1 << 20, 1 << 35), st.integers(1, 1 << 30), st.integers(0, 1 << 20))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such files")


def system(root: Path, groups: str, files: dict[str, str]) -> Path:
    sizes = {"MemTotal": 99 * GIB, "MemFree": GIB, "MemAvailable": FREE, "Buffers": 0, "Cached": 0, "Shmem": 0}
    meminfo = "".join(f"{name}: {size >> 10} kB\n" for name, size in {**sizes, "Active": 0, "Inactive": 0}.items())
    files = {"proc/meminfo": meminfo, "proc/self/cgroup": groups, **files}
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name if "proc" not in name else root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


STAT = f"anon 1\ninactive_file {GIB}\nactive_file {GIB // 2}\n"
TOTAL = STAT.replace("inactive", "total_inactive").replace("\nactive", "\ntotal_active")
SYSTEMS = {
    "no group": ("", {}, FREE),
    "no bound": ("0::/a", {"a/memory.max": "max", "a/memory.current": "5"}, FREE),
    "a bound above what is free": ("0::/a", {"a/memory.max": f"{99 * GIB}", "a/memory.current": "5"}, FREE),
    "a bound": ("0::/a", {"a/memory.max": f"{4 * GIB}", "a/memory.current": f"{GIB}"}, 3 * GIB),
    "pages of files are free": (
        "0::/a",
        {"a/memory.max": f"{4 * GIB}", "a/memory.current": f"{4 * GIB}", "a/memory.stat": STAT},
        GIB * 3 // 2,
    ),
    "a bound of a group above": (
        "0::/a/b/c",
        {"a/memory.max": f"{2 * GIB}", "a/memory.current": "0", "a/b/c/memory.max": "max"},
        2 * GIB,
    ),
    "the group is the root, as in a container": ("0::/", {"memory.max": f"{GIB}", "memory.current": "0"}, GIB),
    "a group that is not shown in a container": (
        "0::/../../other",
        {"memory.max": f"{GIB}", "memory.current": "0"},
        GIB,
    ),
    "the first version": (
        "3:cpu,cpuacct:/a\n2:memory:/a\n0::/",
        {
            "memory/a/memory.limit_in_bytes": f"{4 * GIB}",
            "memory/a/memory.usage_in_bytes": f"{4 * GIB}",
            "memory/a/memory.stat": TOTAL,
        },
        GIB * 3 // 2,
    ),
    "the first version has no bound": (
        "2:memory:/",
        {"memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}", "memory/memory.usage_in_bytes": "5"},
        FREE,
    ),
    "more is used than the bound": ("0::/", {"memory.max": "5", "memory.current": "9"}, 0),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_memory_is_what_system_and_groups_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    groups, files, expected = SYSTEMS[name]
    root = system(tmp_path, groups, files)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(root / "proc"))
    assert available_memory(root) == expected


def test_a_system_without_groups_has_what_it_tells_of_itself(tmp_path: Path) -> None:
    assert 0 < available_memory(tmp_path) <= psutil.virtual_memory().total
    assert 0 < available_memory() <= psutil.virtual_memory().total


def test_reading_memory_takes_time() -> None:
    assert memory_bandwidth() > 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere torch may use the same library")
def test_importing_numpy_starts_no_thread_for_each_core() -> None:
    code = "import os, model_runtime.ids; print(len(os.listdir('/proc/self/task')))"
    env = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True).stdout == b"1\n"


def test_what_is_written_is_held() -> None:
    before = releasable_memory()
    # New pages: a bytearray may get memory that this process already holds.
    written = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    written.write(bytes(len(written)))
    assert releasable_memory() - before > len(written) // 2


def test_what_files_and_other_processes_hold_is_not_released(tmp_path: Path) -> None:
    """Pages of files are free already, and pages that are shared stay with the other process."""
    (tmp_path / "file").write_bytes(bytes(64 << 20))
    with (tmp_path / "file").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    shared, private = mmap.mmap(-1, 64 << 20), mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for pages, held in ((mapped, False), (shared, False), (private, True)):
        before = releasable_memory()
        if pages is mapped:
            assert pages.find(b"x") == -1
        else:
            np.frombuffer(pages, np.uint8).fill(1)
        assert (releasable_memory() - before > len(pages) // 2) is held


def test_a_size_is_that_of_what_is_computed_with() -> None:
    assert model_size(LLAMA).parameters == 11_228_480
    own = reshaped(LLAMA, head_norms=True, head_gates=True, token_values=True)
    assert model_size(own).parameters - model_size(LLAMA).parameters == 8 * (2 * 64 + 5 * GATE_INPUTS)


@given(size=sizes, free=st.integers(0, 1 << 37), kv=st.integers(0, 1 << 31))
def test_what_fits_into_less_fits_into_more_and_smaller_formats_fit_first(
    size: ModelSize, free: int, kv: int
) -> None:
    fit = fitting_formats(size, FORMAT_BYTES, kv, free)
    assert set(fit) <= set(fitting_formats(size, FORMAT_BYTES, kv, free + 1))
    assert all(
        smaller in fit for form in fit for smaller in FORMAT_BYTES if FORMAT_BYTES[smaller] <= FORMAT_BYTES[form]
    )


@given(size=sizes, free=st.integers(0, 1 << 37), kv=st.integers(0, 1 << 31))
def test_a_refusal_tells_numbers_that_add_up_and_something_that_fits(size: ModelSize, free: int, kv: int) -> None:
    if fitting_formats(size, ["fp16"], kv, free):
        return
    told = str(does_not_fit(size, ["fp16"], ["fp32", "int8"], kv, free))
    total, weights, of_kv, working, has = map(float, re.findall(r"\d+\.\d", told.partition(" here")[0]))
    assert abs(total - weights - of_kv - working) < 0.25
    assert has <= total
    if "set weights" in told:
        assert "'int8'" in told and memory_need(size, "int8", kv).total <= free
    elif named := re.search(r"such as (\S+)$", told):
        known = next(each for each in KNOWN_MODELS if each.name == named[1])
        assert known.parameters < size.parameters
    else:
        assert "use the embedded model" in told


def test_the_largest_that_fits_is_named() -> None:
    told = does_not_fit(ModelSize(7_615_616_512, 152064 * 3584), ["fp32", "fp16", "int8"], [], GIB // 2, 10 * GIB)
    assert "needs 11.7 GiB of memory (int8 weights 7.1, KV 0.5, working 4.1) and 10.0 are free here" in str(told)
    assert "a model of up to 6.5 billion parameters, such as ibm-granite/granite-3b-code-base-2k" in str(told)
    assert largest_within(10) is None


def test_a_format_that_does_not_fit_is_refused_with_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    config = LLAMA
    size, kv = model_size(config), 1 << 20
    monkeypatch.setattr(
        "model_runtime.loading.memory_fit.available_memory", lambda: memory_need(size, "fp16", kv).total
    )
    assert "fp32" not in usable_formats(FitRequest(config, "auto", kv))
    with pytest.raises(ModelError, match=r"fp32 weights .* set weights to '(fp16|int8)', which needs"):
        usable_formats(FitRequest(config, "fp32", kv))


def test_a_format_that_this_cpu_cannot_compute_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = LLAMA
    monkeypatch.setattr("model_runtime.loading.memory_fit.supported_formats", lambda config: ["fp32", "int4"])
    monkeypatch.setattr("model_runtime.loading.memory_fit.is_supported", lambda config, form: form == "fp32")
    assert usable_formats(FitRequest(config, "auto", 0)) == ["fp32"]
    with pytest.raises(ModelError, match="'int8' cannot be used on this CPU: set weights to 'auto'"):
        usable_formats(FitRequest(config, "int8", 0))


# On a GPU


def gpu(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    for module in ("loading.memory_fit", "decoder.gpu.device"):
        monkeypatch.setattr(f"model_runtime.{module}.cuda_missing", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda gpu: "A GPU")


SHAPES = {
    "tied": {"tied": True},
    "not tied": {"tied": False},
    "tied, with logits that are scaled, as Granite's": {"tied": True, "logits_scale": 0.125},
}


@pytest.mark.parametrize("form", ["bf16", "int8"])
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_told_to_fit_on_a_gpu_is_what_is_loaded_there(
    monkeypatch: pytest.MonkeyPatch, name: str, form: GpuFormat
) -> None:
    config = replace(LLAMA, **SHAPES[name])
    size, needed = model_size(config), GpuNeed(form, weight_bytes(config, form), 512).bytes
    for free in (needed - 1, needed):
        gpu(monkeypatch, free)
        fits = choose_device("auto", config, 512, form).device == "cuda"
        assert (form in usable_gpu_formats(size, 512 * MIB, config)) == fits == (free == needed)
    assert most_weight_bytes(size.parameters, size.matrix, form) >= weight_bytes(config, form)
    gpu(monkeypatch, most_weight_bytes(size.parameters, size.matrix, form) + 512 * MIB + GPU_RESERVE)
    assert form in usable_gpu_formats(size, 512 * MIB, None)


def test_what_transformers_computes_fits_on_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, 80 * GIB)
    config = replace(LLAMA, foreign=True)
    assert usable_gpu_formats(ModelSize(1, 1), 0, config) == []


def test_layers_that_differ_run_on_no_gpu_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, 80 * GIB)
    config = LLAMA
    mixed = replace(config, layers=(config.alike, replace(config.alike, mlp=Dense(64))))
    assert choose_device("auto", config, 512).device == "cuda"
    assert choose_device("auto", mixed, 512).reason == "the model's layers differ"


def test_a_refusal_of_the_gpu_tells_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    config = reshaped(LLAMA, layers=64)
    least = GpuNeed("int8", weight_bytes(config, "int8"), 512).bytes
    gpu(monkeypatch, least)
    with pytest.raises(ModelError, match=rf"set weights to 'int8', which needs {-(-least // MIB)} MiB, or device to"):
        choose_device("cuda", config, 512, "bf16")
    gpu(monkeypatch, least - 1)
    for form in ("bf16", "int8"):
        with pytest.raises(ModelError, match=r"are free: set device to 'auto' or 'cpu'"):
            choose_device("cuda", config, 512, form)


def test_what_is_missing_is_installed_by_the_interpreter_that_misses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import model_runtime.machine as m; m.install_command('torch'); import setuptools"
    subprocess.run([sys.executable, "-c", code], check=True)  # which asking for pip can make impossible
    monkeypatch.setattr(sys, "executable", "/home/me/own venv/bin/python")
    assert machine.install_command("torch") == '"/home/me/own venv/bin/python" -m pip install torch'
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    assert machine.install_command("torch") == "/venv/bin/python -m pip install torch"
    monkeypatch.setattr(machine.PathFinder, "find_spec", lambda name: None)
    assert machine.install_command("torch") == "uv pip install --python /venv/bin/python torch"


HEAPS = """if True:
    import ctypes, threading
    from model_runtime.machine import share_heap
    {share}
    lib, waiting = ctypes.CDLL(None), threading.Barrier(4)
    lib.fopen.restype = ctypes.c_void_p
    threads = [threading.Thread(target=lambda: (waiting.wait(), lib.malloc(100), waiting.wait())) for _ in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    out = ctypes.c_void_p(lib.fopen(b"/dev/stdout", b"w"))
    lib.malloc_info(0, out), lib.fclose(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is another")
@pytest.mark.parametrize(("share", "one"), [("share_heap()", True), ("", False)])
def test_threads_share_a_heap_where_they_are_told_to(share: str, one: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAPS.format(share=share)], capture_output=True, text=True, check=True
    )
    assert (done.stdout.count("<heap nr=") == 1) is one
