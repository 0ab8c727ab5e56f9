"""How many frames the memory for the KV cache holds, and what is said where it does not hold one."""

from __future__ import annotations

import errno
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from model_runtime.checkpoint.config import parse_config, read_config
from model_runtime.checkpoint.families.layer_spec import Rope
from model_runtime.checkpoint.rope import rotation_bytes, rotations
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weights import read_weights
from model_runtime.errors import ModelError
from model_runtime.kv.layout import arena_bytes
from model_runtime.loading import memory_fit as fits
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.decoders import DecoderOptions, LoadOptions, load_on_cpu
from model_runtime.loading.load import MIB, MOST_ARENAS, LoadedModel, load, plan_load
from model_runtime.loading.memory_fit import kv_bytes, memory_need, model_size
from tests.compiled import require_compiled
from tests.models import Tiny, config, make
from tests.waiting import HANG

ROOMY = Tiny(context=4096)  # a frame of it takes two MiB


def load_within(folder: Path, mib: int, capacity: int = ROOMY.context) -> LoadedModel:
    return load(
        read_checkpoint(folder),
        weights="fp32",
        threads=1,
        capacity=capacity,
        kv_memory_mib=mib,
        ngrams=False,
        progress=lambda stage, percent: None,
    )


def test_one_frame_is_kept_whatever_the_setting_says_and_the_log_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "model_runtime.loading.load")
    folder = make(tmp_path, ROOMY)
    assert arena_bytes(read_config(folder), ROOMY.context) == 2 * MIB
    assert load_within(folder, 1, ROOMY.context // 2).parts.description.arenas == 1
    assert not caplog.records
    assert load_within(folder, 1, ROOMY.context // 2 + 1).parts.description.arenas == 1
    (record,) = caplog.records
    assert record.getMessage() == "memory_mib leaves 1 MiB to arenas, but the one arena needs 2"


def test_a_frame_for_which_there_is_no_memory_is_refused_before_the_weights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "available_memory", lambda: 2 * MIB)
    folder = make(tmp_path, ROOMY)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="needs .* of memory .*KV"):
        load_within(folder, 1)


@pytest.mark.parametrize(("mib", "arenas"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4), (100_000, MOST_ARENAS)])
def test_as_many_frames_as_fit_in_the_memory_are_kept(tmp_path: Path, mib: int, arenas: int) -> None:
    assert load_within(make(tmp_path, ROOMY), mib).parts.description.arenas == arenas


def test_a_context_smaller_than_the_capacity_is_what_a_frame_takes(tmp_path: Path) -> None:
    loaded = load_within(make(tmp_path, Tiny(context=1024)), 1, capacity=10**9)
    assert (loaded.parts.capacity, loaded.parts.description.arenas) == (1024, 2)


LONG = Tiny(context=1 << 20, head_dim=128, heads=1, kv_heads=1)  # half a GiB of rotations
LOADED = """
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
import sys
import tests.engine.loading.test_load_memory as here
from model_runtime.machine import releasable_memory
for capacity in sys.argv[2:]:
    before, least = releasable_memory(), getrusage(RUSAGE_SELF).ru_maxrss
    kept = here.long_model(sys.argv[1], capacity)
    print(releasable_memory() - before, (getrusage(RUSAGE_SELF).ru_maxrss - least) << 10)
"""


def long_model(weights: Literal["fp32", "int8"], capacity: str) -> object:
    """A decoder for arenas of so many tokens, made by the process that counts its memory."""
    shape = parse_config(config(LONG))
    tensors = {name: np.ones(sizes, dtype=np.float32) for name, sizes in expected_shapes(shape).items()}
    options = DecoderOptions(weights=weights, threads=1)
    return load_on_cpu(shape, tensors, int(capacity), 1, options, [weights])


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted where Linux tells it")
@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_a_context_of_a_million_tokens_takes_memory_for_the_tokens_of_an_arena(weights: str) -> None:
    if weights == "int8":
        require_compiled()

    few, many = 512, 1 << 17
    command = [sys.executable, "-c", LOADED, weights, str(few), str(many)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    small, (kept, _) = ([int(each) for each in line.split()] for line in ran.stdout.splitlines())
    assert max(small) < 100 * MIB
    counted = rotation_bytes(LONG.head_dim, many)
    assert counted == 64 * MIB
    assert 0.9 * counted < kept < 1.2 * counted + 16 * MIB, "once"


def test_rotations_are_as_long_as_an_arena_and_what_a_longer_table_begins_with(tmp_path: Path) -> None:
    loaded = load_within(make(tmp_path, ROOMY), 1, 300)
    assert loaded.kv.rotations is not None
    [found] = loaded.kv.rotations
    assert len(found) == loaded.parts.capacity == 300
    head_dim = read_config(tmp_path).full.head_dim
    assert np.array_equal(found, rotations(Rope(), head_dim, 4096)[:300])


def test_rotations_are_counted_before_the_weights_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = read_checkpoint(make(tmp_path, LONG))
    shape, capacity = checkpoint.config, LONG.context
    frame = arena_bytes(shape, capacity)
    assert kv_bytes(shape, capacity, 3) == 3 * frame + 512 * MIB
    needed = memory_need(model_size(shape), "fp32", frame).total + 512 * MIB
    options = LoadOptions(device="cpu", weights="fp32", threads=1, capacity=capacity, kv_memory_mib=1)
    monkeypatch.setattr(fits, "available_memory", lambda: needed)
    assert plan_load(checkpoint, **options).arenas == 1
    monkeypatch.setattr(fits, "available_memory", lambda: needed - 1)
    with pytest.raises(ModelError, match="needs .* of memory"):
        plan_load(checkpoint, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted where Linux tells it")
def test_a_file_of_weights_is_mapped_once_and_released_once_it_is_packed(tmp_path: Path) -> None:
    """A descriptor for each of a large model's tensors would be more than some systems allow."""
    folder = make(tmp_path)
    weights = read_weights(folder, read_config(folder))
    before = {name: weight.copy() for name, weight in weights.items()}

    def entries() -> list[str]:
        listed = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text("utf-8"))
        return [entry for entry in listed if f"{folder}/model.safetensors" in entry]

    [mapped] = entries()
    assert "Rss:                   0 kB" not in mapped
    weights.release()
    [released] = entries()
    assert "Rss:                   0 kB" in released
    assert all(np.array_equal(weights[name], weight) for name, weight in before.items())


WITHOUT_MEMORY = """
import resource, sys
from pathlib import Path
import psutil
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import load
from model_runtime.decoder.native.decoder import NativeDecoder
checkpoint = read_checkpoint(EMBEDDED)
most = psutil.Process().memory_info().vms + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    load(checkpoint, weights="int8", threads=1, capacity=2048, kv_memory_mib=64, ngrams=False,
         progress=lambda stage, percent: None)
except ModelError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound what is mapped")
@pytest.mark.parametrize("spare", [4 * MIB, 24 * MIB, 44 * MIB])  # no weights can be mapped, none packed, or not all
def test_a_system_without_memory_is_told_with_what_the_model_takes_and_the_remedy(spare: int) -> None:
    require_compiled()
    command = [sys.executable, "-c", WITHOUT_MEMORY, str(spare)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    told = r"there is not enough memory for the model \(\d+ MiB\): end other programs or choose a smaller model\n"
    assert re.fullmatch(told, done.stdout), done.stderr


def test_weights_that_cannot_be_mapped_are_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    folder = make(tmp_path, ROOMY)
    monkeypatch.setattr("model_runtime.checkpoint.tensors.compact.mmap.mmap", refuse)
    with pytest.raises(ModelError, match=r"^there is not enough memory for the model \(1 MiB\): end other programs"):
        load_within(folder, 8)
