"""How many frames the memory for the KV cache holds, and what is said where it does not hold one."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from model_runtime.arena.arena import arena_bytes
from model_runtime.checkpoint.config import read_config
from model_runtime.errors import ModelError
from model_runtime.loading import memory_fit as fits
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import MIB, MOST_ARENAS, Model, load
from tests.models import Tiny, make

ROOMY = Tiny(context=4096)  # a frame of it takes two MiB


def load_within(folder: Path, mib: int, capacity: int = ROOMY.context) -> Model:
    return load(
        read_checkpoint(folder),
        weights="fp32",
        threads=1,
        capacity=capacity,
        kv_memory_mib=mib,
        local_cache=False,
        speed_notes=None,
        progress=lambda stage, percent: None,
    )


def test_one_frame_is_kept_whatever_the_setting_says_and_the_log_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "model_runtime.loading.load")
    folder = make(tmp_path, ROOMY)
    assert arena_bytes(read_config(folder), ROOMY.context) == 2 * MIB
    assert load_within(folder, 1, ROOMY.context // 2).description.arenas == 1
    assert not caplog.records
    assert load_within(folder, 1, ROOMY.context // 2 + 1).description.arenas == 1
    (record,) = caplog.records
    assert record.getMessage() == "kv_memory_mib is 1, but the one arena needs 2 MiB"


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
    assert load_within(make(tmp_path, ROOMY), mib).description.arenas == arenas


def test_a_context_smaller_than_the_capacity_is_what_a_frame_takes(tmp_path: Path) -> None:
    loaded = load_within(make(tmp_path, Tiny(context=1024)), 1, capacity=10**9)
    assert (loaded.engine.capacity, loaded.description.arenas) == (1024, 2)
