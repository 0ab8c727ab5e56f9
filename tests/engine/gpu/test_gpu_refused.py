"""What becomes of a GPU that cannot compute the model: the next operator, then the CPU, and the reason."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from model_runtime import machine
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.decoder.gpu import attention, device
from model_runtime.decoder.gpu import load as gpu_loading
from model_runtime.decoder.gpu.attention import (
    AttentionWay,
    Bias,
    attend_materialized,
    choose_attention,
    first_that_runs,
    single_rows_split,
    why_not,
)
from model_runtime.decoder.gpu.device import GpuError
from model_runtime.decoder.gpu.slab import Slab
from model_runtime.errors import ModelError
from model_runtime.machine import cuda_state
from tests.engine.gpu.loading import load_here
from tests.models import reshaped

CAPACITY = 100
CARD = "NVIDIA X (compute capability 12.0)"
MIB = 1 << 20


@pytest.fixture
def config(folder: Path) -> ModelConfig:
    return read_config(folder)


@pytest.fixture
def slab(config: ModelConfig) -> Slab:
    return Slab(config, CAPACITY, 2, torch.float32, torch.device("cpu"))


# Operators are tried


def no_kernel(*given: object) -> torch.Tensor:
    raise NotImplementedError("\nno kernel image is available\nfor execution on the device")


def wrong_behind(rows: int) -> attention.Attend:
    """Right only in passes of fewer rows."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
        found = attend_materialized(q, k, v, bias, scale)
        return found if len(q) < rows else found * torch.nan

    return attend


def test_an_operator_that_computes_what_torch_does_is_taken_and_leaves_the_slab_empty(
    slab: Slab, config: ModelConfig
) -> None:
    assert why_not(attend_materialized, slab, config.full.heads) is None
    assert not slab.k.any() and not slab.v.any()


@pytest.mark.parametrize(
    ("attend", "why"),
    [
        (no_kernel, "NotImplementedError: no kernel image is available"),
        (wrong_behind(1), "its numbers are wrong in a pass of 1 rows"),
        (wrong_behind(64), "its numbers are wrong in a pass of 64 rows"),
        (wrong_behind(65), "its numbers are wrong in a pass of 100 rows"),
    ],
)
def test_an_operator_that_raises_or_is_wrong_at_any_width_is_refused(
    slab: Slab, config: ModelConfig, attend: attention.Attend, why: str
) -> None:
    assert why_not(attend, slab, config.full.heads) == why
    assert not slab.k.any() and not slab.v.any()


@pytest.mark.parametrize("what", ["key of a neighbour", "last key"])
def test_an_operator_that_sees_one_key_too_many_or_too_few_is_refused(
    slab: Slab, config: ModelConfig, what: str
) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Bias, scale: float) -> torch.Tensor:
        bias.k_seqinfo.seqlen_py = [
            n + (1 if what == "key of a neighbour" else -(n > 1)) for n in bias.k_seqinfo.seqlen_py
        ]
        return attend_materialized(q, k, v, bias, scale)

    assert "numbers are wrong" in (why_not(attend, slab, config.full.heads) or "")


def test_memory_that_lacks_is_no_reason_against_an_operator(slab: Slab, config: ModelConfig) -> None:
    def attend(*given: object) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("none")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        why_not(attend, slab, config.full.heads)


def ways(*functions: attention.Attend) -> list[AttentionWay]:
    return [AttentionWay(each, name, name + "'s") for each, name in zip(functions, ("split", "flash"), strict=True)]


def test_where_one_operator_does_not_run_the_next_is_taken_and_the_reason_is_kept(
    slab: Slab, config: ModelConfig
) -> None:
    found = first_that_runs(ways(no_kernel, attend_materialized), slab, config.full.heads, CARD)
    assert (found.attend, found.backend) == (attend_materialized, "flash")
    assert found.reason == "split cannot be used (NotImplementedError: no kernel image is available): flash's"
    assert first_that_runs(ways(attend_materialized, no_kernel), slab, config.full.heads, CARD).reason == "split's"


def test_where_none_runs_the_card_is_named(slab: Slab, config: ModelConfig) -> None:
    why = (
        r"no kernel that works on NVIDIA X \(compute capability 12.0\): split cannot .*; flash cannot .*: set device"
    )
    with pytest.raises(GpuError, match=why):
        first_that_runs(ways(no_kernel, wrong_behind(2)), slab, config.full.heads, CARD)


def test_heads_that_the_split_kernel_cannot_take_are_left_to_flash(config: ModelConfig) -> None:
    slab = Slab(reshaped(config, head_dim=80), CAPACITY, 2, torch.float32, torch.device("cpu"))
    found = first_that_runs(
        ways(single_rows_split(attend_materialized), attend_materialized), slab, config.full.heads, CARD
    )
    assert (found.attend, found.backend) == (attend_materialized, "flash")
    assert "no kernel for a head_dim of 80" in found.reason


def test_a_cpu_needs_no_operator(slab: Slab, config: ModelConfig) -> None:
    assert choose_attention(slab, config.full.heads).attend is attend_materialized


# The model is loaded all the same


def pretend(monkeypatch: pytest.MonkeyPatch, *free_mib: int) -> None:
    """GPUs of the newest kind with so much free memory each."""
    monkeypatch.setattr(machine, "has_cuda_driver", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for name, given in {
        "is_available": lambda: True,
        "device_count": lambda: len(free_mib),
        "get_device_capability": lambda gpu: (12, 0),
        "get_device_name": lambda gpu: f"Card {gpu}",
        "mem_get_info": lambda gpu: (free_mib[gpu] * MIB, 80_000 * MIB),
    }.items():
        monkeypatch.setattr(torch.cuda, name, given)


def test_beside_a_gpu_a_torch_that_is_missing_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.cuda_missing() is not None, "no GPU is pretended yet"
    monkeypatch.setattr(machine, "has_cuda_driver", lambda: True)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    told = f"torch is not installed: run {machine.install_command('torch')}"
    assert machine.cuda_missing() == cuda_state() == told


def refusing(reason: str) -> Callable[..., None]:
    def load_on_gpu(*given: object) -> None:
        raise GpuError(reason)

    return load_on_gpu


def test_a_gpu_that_cannot_compute_the_model_leaves_it_to_the_cpu_and_says_why_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, 80_000)
    reason = f"xformers has no kernel that works on {CARD}: NotImplementedError"
    monkeypatch.setattr(gpu_loading, "load_on_gpu", refusing(reason))
    with caplog.at_level(logging.WARNING):
        told = load_here(folder, "auto").parts.description
    assert (told.device, told.device_reason) == ("cpu", reason)
    assert [record.getMessage() for record in caplog.records] == [f"the model runs on the CPU: {reason}"]
    assert told.arenas == load_here(folder, "cpu").parts.description.arenas, "fp32 takes a CPU's memory"


def test_a_user_who_asked_for_the_gpu_is_told_the_cause_and_the_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 80_000)
    monkeypatch.setattr(gpu_loading, "load_on_gpu", refusing(f"xformers has no kernel that works on {CARD}"))
    with pytest.raises(ModelError) as raised:
        load_here(folder, "cuda")
    told = f"the setting device asks for the GPU, but xformers has no kernel that works on {CARD}"
    assert str(raised.value) == f"{told}: set device to 'auto' or 'cpu'"


@pytest.mark.parametrize("error", [ImportError("no such schema"), AttributeError("make_block_ptr")])
def test_an_xformers_that_cannot_be_imported_leaves_the_model_to_the_cpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Broken:
        def find_spec(self, name: str, *others: object) -> None:
            if name == "xformers.ops.fmha":
                raise error

    pretend(monkeypatch, 80_000)
    for name in ("model_runtime.decoder.gpu.load", "model_runtime.decoder.gpu.attention", "xformers.ops.fmha"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    told = load_here(folder, "auto").parts.description
    assert told.device == "cpu" and "xformers cannot be imported with torch" in told.device_reason
    assert type(error).__name__ in told.device_reason
    with pytest.raises(ModelError, match=r"but xformers cannot .*: install the versions of constraints-gpu\.txt"):
        load_here(folder, "cuda")


def test_whatever_a_compiler_raises_is_a_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        def __enter__(self) -> None:
            raise RuntimeError("PTX was compiled for another card\nand more")

        def __exit__(self, *given: object) -> None: ...

    pretend(monkeypatch, 80_000)
    monkeypatch.setattr(torch.cuda, "device", lambda gpu: Nowhere())
    told = load_here(folder, "auto").parts.description
    assert told.device_reason == (
        "Card 0 (compute capability 12.0) cannot run this model (RuntimeError: PTX was compiled for another card)"
    )


def test_each_load_starts_without_what_earlier_models_had_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all models together dynamo compiles a function eight times, and then no more."""
    done = list[str]()
    pretend(monkeypatch, 80_000)
    monkeypatch.setattr(torch.cuda, "device", lambda gpu: nullcontext())
    monkeypatch.setattr(torch.compiler, "reset", lambda: done.append("reset"))
    monkeypatch.setattr(gpu_loading, "Slab", lambda *given: done.append("slab"))
    monkeypatch.setattr(gpu_loading, "choose_attention", lambda *given: done.append("attention") or refusing("no")())
    for _ in range(2):
        assert load_here(folder, "auto").parts.description.device_reason == "no"
    assert done == 2 * ["reset", "slab", "attention"]


# Which GPU


@pytest.mark.parametrize(("free", "roomiest"), [((9000,), 0), ((2000, 9000, 8000), 1), ((9000, 2000), 0)])
def test_the_gpu_with_the_most_free_memory_is_chosen_and_loaded_onto(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: tuple[int, ...], roomiest: int
) -> None:
    pretend(monkeypatch, *free)
    choice = device.choose_device("auto", read_config(folder), 512)
    assert choice == ("cuda", f"Card {roomiest} is faster", roomiest)
    given = list[object]()
    monkeypatch.setattr(gpu_loading, "load_on_gpu", lambda *args: given.extend(args) or refusing("no")())
    assert load_here(folder, "auto").parts.description.device == "cpu"
    assert given[5] == roomiest


def test_a_gpu_that_is_too_old_is_passed_over_and_named_if_there_is_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 9000, 2000)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda gpu: (6, 1) if gpu == 0 else (8, 0))
    assert device.choose_device("auto", read_config(folder), 512).gpu == 1
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda gpu: (6, 1))
    cards = "Card 0 (compute capability 6.1), Card 1 (compute capability 6.1)"
    reason = device.choose_device("auto", read_config(folder), 512).reason
    assert reason == f"bf16 needs compute capability 8.0, and there is only {cards}" == cuda_state()


def test_memory_of_the_host_that_does_not_suffice_to_convert_weights_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 80_000)
    monkeypatch.setattr(device, "available_memory", lambda: 1000)
    reason = device.choose_device("auto", read_config(folder), 512).reason
    assert reason == "converting the weights needs 1 MiB of memory and 1 are free"
