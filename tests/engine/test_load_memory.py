"""How many frames the memory for the KV cache holds, and what is said where it does not hold one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from efim_ls.complete import Completer
from efim_ls.settings import Settings
from model_runtime.arena import arena_bytes
from model_runtime.checkpoint import read_checkpoint
from model_runtime.config import read_config
from model_runtime.errors import ModelError
from model_runtime.load import MIB, MOST_ARENAS, Model, load
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
        measured=None,
        progress=lambda stage, percent: None,
    )


def test_a_frame_that_exceeds_the_memory_is_refused_with_both_numbers_and_the_remedy(tmp_path: Path) -> None:
    folder = make(tmp_path, ROOMY)
    assert arena_bytes(read_config(folder), ROOMY.context) == 2 * MIB
    with pytest.raises(ModelError) as caught:
        load_within(folder, 1)
    needed, allowed, remedy = re.split("takes|allows", str(caught.value))
    assert "KV cache" in needed
    assert "2 MiB" in allowed and "kv_memory_mib" in allowed
    assert re.match(r" 1: raise it, or lower head_tokens and tail_tokens$", remedy)


def test_a_frame_that_exceeds_the_memory_by_a_token_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path, ROOMY)
    assert load_within(folder, 1, ROOMY.context // 2).description.arenas == 1
    with pytest.raises(ModelError, match="takes 2 MiB.*allows 1:"):
        load_within(folder, 1, ROOMY.context // 2 + 1)


def test_what_exceeds_the_memory_is_refused_before_the_weights_are_read(tmp_path: Path) -> None:
    folder = make(tmp_path, ROOMY)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="kv_memory_mib"):
        load_within(folder, 1)


def test_the_setting_is_what_a_frame_must_fit_in(tmp_path: Path) -> None:
    folder = make(tmp_path, ROOMY)
    with pytest.raises(ModelError, match="kv_memory_mib allows 1:"):
        Completer.load(Settings(model=str(folder), head_tokens=3000, kv_memory_mib=1), lambda stage, percent: None)


@pytest.mark.parametrize(("mib", "arenas"), [(2, 1), (3, 1), (4, 2), (9, 4), (100_000, MOST_ARENAS)])
def test_as_many_frames_as_fit_in_the_memory_are_kept(tmp_path: Path, mib: int, arenas: int) -> None:
    assert load_within(make(tmp_path, ROOMY), mib).description.arenas == arenas


def test_a_context_smaller_than_the_capacity_is_what_a_frame_takes(tmp_path: Path) -> None:
    loaded = load_within(make(tmp_path, Tiny(context=1024)), 1, capacity=10**9)
    assert (loaded.engine.capacity, loaded.description.arenas) == (1024, 2)
