"""Whatever keys and values depend on gives them another fingerprint: each ingredient changed alone."""

from __future__ import annotations

import ast
import shutil
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.families.layer_spec import AltUp, Rope
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import Runtime
from model_runtime.decoder.gpu.device import DeviceChoice
from model_runtime.kv import layout
from model_runtime.kv.arena import DenseArena
from model_runtime.kv.layout import fingerprint
from model_runtime.loading import load
from model_runtime.loading.weight_format import CpuMethod, usable_methods
from tests.compiled import require_compiled

CONFIG = read_config(EMBEDDED)
FILES = [b"w" * 32, b"t" * 32]
CODE = ["int8 compiled", "sources", "2.13.0"]
OTHER: dict[type, Any] = {
    str: "another", int: 77, float: 0.25, bool: None, tuple: (77,), Rope: Rope(theta=7.0),
    type(None): AltUp(2, 0, 8, 8, 8),
}  # fmt: skip
# They compute no number.
HARMLESS = {
    "model_runtime.c_sources",
    "model_runtime.cancel",
    "model_runtime.engine.prefill",
    "model_runtime.errors",
    "model_runtime.sequence_key",
    "model_runtime.ids",
    "model_runtime.logits",
    "model_runtime.machine",
    "model_runtime.mapped_memory",
    "model_runtime.prompt.context",
    "model_runtime.prompt.prompt",
    "model_runtime.prompt.template",
    "model_runtime.prompt.tokenizer",
    "model_runtime.regular_files",
    "model_runtime.row_rules",
}


def of_code(runtime: Runtime, device: Literal["cpu", "cuda"] = "cpu") -> bytes:
    return fingerprint(FILES, CONFIG, load.kv_code(runtime, DeviceChoice(device, "", gpu=1)))


def runtime(kv: str = "fp32 torch", attention: str = "flash") -> Runtime:
    return Runtime(1, None, None, 1, "", kv, kv.split()[1], "", attention, "")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("field", [field.name for field in fields(CONFIG)])
def test_every_field_of_the_shape_counts(field: str) -> None:
    value = getattr(CONFIG, field)
    other = not value if isinstance(value, bool) else OTHER[type(value)]
    assert other != value
    assert fingerprint(FILES, replace(CONFIG, **{field: other}), CODE) != fingerprint(FILES, CONFIG, CODE)


@pytest.mark.parametrize("place", range(len(FILES)))
def test_every_file_counts(place: int) -> None:
    files = [b"x" * 32 if i == place else each for i, each in enumerate(FILES)]
    assert fingerprint(files, CONFIG, CODE) != fingerprint(FILES, CONFIG, CODE)


@pytest.mark.parametrize("place", range(len(CODE)))
def test_format_and_code_count(place: int) -> None:
    code = ["another" if i == place else each for i, each in enumerate(CODE)]
    assert fingerprint(FILES, CONFIG, code) != fingerprint(FILES, CONFIG, CODE)


def test_the_layout_of_arenas_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(FILES, CONFIG, CODE)
    monkeypatch.setattr(layout, "KV_LAYOUT", layout.KV_LAYOUT + 1)
    assert fingerprint(FILES, CONFIG, CODE) != before


def test_the_same_has_the_same_fingerprint() -> None:
    assert of_code(runtime()) == of_code(runtime())


def test_the_way_to_compute_and_its_attention_count() -> None:
    ways = [runtime(), runtime("fp16 torch"), runtime("fp16 compiled"), runtime(attention="split-K")]
    assert len({of_code(each) for each in ways}) == len(ways)


FACTS = {
    "torch": ("torch", torch, "__version__", "99.0"),
    "what the CPU can do for torch": ("torch", torch.backends.cpu, "get_cpu_capability", lambda: "ABACUS"),
    "the CPU": ("compiled", load, "cpu_name", lambda: "another"),
    "numpy": ("compiled", np, "__version__", "99.0"),
    "the compiled part's sources": ("compiled", load, "library_hash", lambda: "another"),
    "the modules": ("compiled", load, "python_hash", lambda root: "another"),
    "torch beside a GPU": ("cuda", torch, "__version__", "99.0"),
    "the GPU": ("cuda", torch.cuda, "get_device_name", lambda gpu: f"another {gpu}"),
    "xformers": ("cuda", load, "version", lambda package: "99.0"),
}


@pytest.mark.parametrize("fact", FACTS)
def test_libraries_and_devices_count(monkeypatch: pytest.MonkeyPatch, fact: str) -> None:
    by, module, name, value = FACTS[fact]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda gpu: f"GPU {gpu}")
    computed = runtime(f"int8 {by}"), "cuda" if by == "cuda" else "cpu"
    before = of_code(*computed)
    monkeypatch.setattr(module, name, value)
    assert of_code(*computed) != before


MODULES = sorted(path for room in load.ROOMS for path in (load.ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(load.ROOT)))
def test_a_change_of_any_module_that_computes_moves_the_hash(tmp_path: Path, path: Path) -> None:
    for room in load.ROOMS:
        shutil.copytree(load.ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    assert load.python_hash(tmp_path) == load.python_hash(load.ROOT)
    with (tmp_path / path.relative_to(load.ROOT)).open("a") as file:
        file.write("\n")
    assert load.python_hash(tmp_path) != load.python_hash(load.ROOT)


def test_nothing_that_computes_lies_outside_the_modules_that_are_hashed() -> None:
    imported = {
        name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (name := node.module or "").startswith("model_runtime.")
    }
    rooms = tuple(f"model_runtime.{room}" for room in load.ROOMS)
    assert {name for name in imported if not name.startswith(rooms)} <= HARMLESS


def test_ways_whose_bits_differ_share_no_name() -> None:
    require_compiled()
    weights, ids = read_weights(EMBEDDED, CONFIG), np.arange(40, dtype=np.int32)

    def keys(way: CpuMethod) -> npt.NDArray[np.float32]:
        arena = DenseArena(CONFIG, len(ids))
        way.decoder(CONFIG, weights, 1).forward(ids, arena)
        return arena.k

    ways = usable_methods(CONFIG)
    found = {str(way): keys(way) for way in ways}
    assert len(found) == len(ways) > 2
    differ = [pair for pair in combinations(found, 2) if not np.array_equal(found[pair[0]], found[pair[1]])]
    for one, other in differ:
        assert of_code(runtime(one)) != of_code(runtime(other))
