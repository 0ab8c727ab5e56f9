"""Memory of the compiled decoder's weights: private to the process, counted as its own, in huge pages if allowed."""

from __future__ import annotations

import json
import mmap
import re
import subprocess
import sys
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.checkpoint.config import parse_config
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.decoder.native.weights import ALIGNMENT, REGION, WeightMemory
from model_runtime.errors import ModelError
from model_runtime.kv.arena import DenseArena
from model_runtime.kv.layout import arena_bytes
from model_runtime.loading import memory_fit
from model_runtime.loading.memory_fit import FitRequest, memory_need, model_size, usable_formats
from tests.compiled import require_compiled
from tests.models import Tiny, config, make

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read where Linux tells it")

shapes = st.tuples(st.integers(0, 70), st.integers(1, 3)) | st.just((REGION // 2 + 1, 1))
kinds = st.sampled_from([np.dtype(kind) for kind in (np.int8, np.float16, np.float32)])


@given(wanted=st.lists(st.tuples(shapes, kinds), min_size=1, max_size=8))
def test_tensors_are_zero_aligned_and_do_not_overlap(wanted: list[tuple[tuple[int, int], np.dtype[Any]]]) -> None:
    memory = WeightMemory()
    made = [memory.zeros(shape, kind) for shape, kind in wanted]
    for number, (tensor, (shape, kind)) in enumerate(zip(made, wanted, strict=True), 1):
        assert (tensor.shape, tensor.dtype) == (shape, kind) and tensor.flags.c_contiguous
        assert tensor.ctypes.data % ALIGNMENT == 0 or not tensor.size
        assert not tensor[-100:].any()
        tensor[:100].fill(number)
        tensor[-100:].fill(number)
    assert all((t[:100] == n).all() and (t[-100:] == n).all() for n, t in enumerate(made, 1))


def mapping_of(tensor: npt.NDArray[Any]) -> str:
    """What the system says about the mapping that a tensor lies in."""
    for entry in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        if found := re.match("([0-9a-f]+)-([0-9a-f]+) ", entry):
            start, end = (int(each, 16) for each in found.groups())
            if start <= tensor.ctypes.data < end:
                return entry
    raise AssertionError("no mapping holds the tensor")


def test_weights_lie_in_huge_pages_where_the_system_allows_it() -> None:
    tensor = WeightMemory().zeros((64 * MIB,), np.int8)
    tensor.fill(1)
    entry = mapping_of(tensor)
    flags = re.search("VmFlags:(.*)", entry)
    assert flags and "sh" not in flags[1].split(), "shared memory is put into huge pages by another setting"
    if not SETTING.exists() or "[never]" in SETTING.read_text():
        pytest.skip("this system has no huge pages, or was told to use none")
    assert "hg" in flags[1].split()
    pages = re.search(r"AnonHugePages: *(\d+) kB", entry)
    assert pages and int(pages[1]) > 0


def resident(tensor: npt.NDArray[Any]) -> int:
    """The bytes of memory that the mapping takes in which a tensor lies, and its neighbours, if it has any."""
    taken = re.search(r"Rss: *(\d+) kB", mapping_of(tensor))
    assert taken
    return int(taken[1]) << 10


def test_an_arena_takes_memory_for_the_tokens_that_it_holds() -> None:
    """Huge pages would make it 10 MiB for a few lines, as each head's rows begin in another one."""
    shape = parse_config(json.loads((ROOT / "model_runtime/embedded/python/config.json").read_text()))
    arena, attention = DenseArena(shape, shape.context), shape.full
    if SETTING.exists():  # else the kernel knows no such pages
        flags = re.search("VmFlags:(.*)", mapping_of(arena.k))
        assert flags and "nh" in flags[1].split()
    before, tokens = resident(arena.k), 20
    ones = np.ones((2, len(shape.layers), attention.kv_heads, tokens, attention.head_dim), dtype=np.float32)
    arena.write(shape.excerpt_rows, ones)
    pages = 1 + -(-4 * attention.head_dim * tokens // mmap.PAGESIZE)
    most = 2 * len(shape.layers) * attention.kv_heads * pages * mmap.PAGESIZE
    assert 0 < resident(arena.k) - before <= most < arena_bytes(shape, shape.context) // 8


IMPORTS = """
import numpy as np
from dataclasses import replace
from model_runtime.checkpoint.config import parse_config
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.decoder.native.weights import WeightMemory
from model_runtime.machine import releasable_memory
from tests.models import Tiny, config
held = [releasable_memory()]
"""
RELEASED = """
memory = WeightMemory()
tensors = [memory.zeros((64 << 20,), np.int8) for _ in range(2)]
for tensor in tensors:
    tensor.fill(1)
held.append(releasable_memory())
del tensor, tensors, memory
"""
LOADED = """
shape = replace(parse_config(config(Tiny(hidden=512))), vocab=64 << 10)
weights = {name: np.ones(sizes, dtype=np.float32) for name, sizes in expected_shapes(shape).items()}
held.append(releasable_memory())
decoder = NativeDecoder(shape, weights, "fp16", 1)
"""


def held_after(code: str) -> list[int]:
    """The bytes that a process of its own could release, as it runs some code and at its end."""
    told = f"{IMPORTS}{code}held.append(releasable_memory())\nprint(held)"
    ran = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True, cwd=ROOT)
    return json.loads(ran.stdout)


def test_memory_goes_back_to_the_system_with_the_last_tensor() -> None:
    before, full, after = held_after(RELEASED)
    assert full - before > 120 * MIB
    assert after - before < 16 * MIB


def test_the_memory_check_for_a_second_model_counts_the_weights_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    require_compiled()
    shape = replace(parse_config(config(Tiny(hidden=512))), vocab=64 << 10)
    _, before, after = held_after(LOADED)
    weights = 2 * prod(expected_shapes(shape)["model.embed_tokens.weight"])
    assert after - before > 0.9 * weights
    second = memory_need(model_size(shape), "fp16", 0).total
    monkeypatch.setattr(memory_fit, "available_memory", lambda: second - weights // 2)
    assert usable_formats(FitRequest(shape, "fp16", 0, soon=after - before)) == ["fp16"]
    with pytest.raises(ModelError, match="of memory"):
        usable_formats(FitRequest(shape, "fp16", 0))


TOKENS_LOOKED_UP = """
from pathlib import Path
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.tensor_shapes import TOKEN_VALUES
from model_runtime.checkpoint.weights import read_weights
from model_runtime.kv.arena import DenseArena

def mapped(array):
    at, size, total, inside = array.ctypes.data, array.nbytes, 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and ":" not in first:
            begin, end = (int(each, 16) for each in first.split("-"))
            inside = begin < at + size and at < end
        elif inside and first == "Rss:":
            total += int(line.split()[1]) << 10
    return total

folder = Path({folder!r})
shape = read_config(folder)
weights = read_weights(folder, shape)
decoder, table = NativeDecoder(shape, weights, "int8", 1), weights[TOKEN_VALUES]
weights.release()
held = [table.nbytes, mapped(table)]
decoder.forward(np.arange(40, dtype=np.int32), DenseArena(shape, 64))
held.append(mapped(table))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="this system does not tell what is mapped")
def test_of_token_values_only_rows_that_are_used_are_in_memory(tmp_path: Path) -> None:
    require_compiled()
    folder = make(tmp_path, Tiny("efim", layers=8, vocabulary=64_000))
    table, loaded, used, _ = held_after(TOKENS_LOOKED_UP.replace("{folder!r}", repr(str(folder))))
    assert table > 60 * MIB and loaded < MIB
    assert used < 2 * MIB
