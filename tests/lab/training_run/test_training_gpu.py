"""What trains on a GPU, computed on the CPU without compiling, beside the network and torch's Muon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_lab.gate import network
from efim_lab.workshop.training import objective
from efim_lab.workshop.training.autograd.loss import GpuLoss, attend_masked, attend_samples, cumulative_lengths
from efim_lab.workshop.training.autograd.muon import StackedMuon
from efim_lab.workshop.training.loop import AutogradGradients
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.masks import sample_starts
from efim_lab.workshop.training.samples.packing import PADDING
from efim_lab.workshop.training.samples.stream import Batches, ShardSource
from model_runtime.machine import cuda_missing

SMALL = network.Shape(
    vocabulary=96, width=48, layers=2, heads=4, kv_heads=2, head_dim=16, feed_forward=80, context=64
)
ROUGH = 0.02  # of bf16, beside the same computed otherwise
PARTS = ("head_norms", "head_gates", "token_values")
seeds = st.integers(0, 2**32 - 1)


def rows_of_samples(seed: int, count: int, length: int) -> torch.Tensor:
    """Rows in which samples end now and then, the last tokens padding."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(bpe.ID), SMALL.vocabulary, (count, length), generator=generator)
    rows[torch.rand(rows.shape, generator=generator) < 0.1] = bpe.ID[bpe.END]
    rows[torch.rand(rows.shape, generator=generator) < 0.05] = bpe.ID[bpe.PREFIX]
    rows[:, -3:] = PADDING
    return rows


@pytest.mark.parametrize(
    "parts", [(), PARTS, *((part,) for part in PARTS)], ids=lambda parts: "+".join(parts) or "llama"
)
def test_gradients_are_those_of_the_network(parts: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    model = network.build(replace(SMALL, **dict.fromkeys(parts, True)))
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    rows = rows_of_samples(1, 4, 64)
    wanted = objective.loss_of_samples(model, rows)
    gradients = torch.autograd.grad(wanted, list(model.parameters()))
    # Two passes of two rows: with the same count of targets in each, their means are the mean.
    found = AutogradGradients(GpuLoss(model, attend_masked, compiled=False), 2 * rows.shape[1])
    assert found(rows) == pytest.approx(wanted.item(), rel=2e-3)
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        assert parameter.grad is not None
        assert (parameter.grad - gradient).norm() <= 0.05 * gradient.norm(), name


@given(seeds, st.integers(1, 4), st.integers(4, 80))
@settings(max_examples=50)
def test_ranges_are_what_places_of_rows_see(seed: int, count: int, length: int) -> None:
    starts = sample_starts(rows_of_samples(seed, count, length))
    ends = cumulative_lengths(starts)
    assert ends.dtype == torch.int32 and ends[0] == 0 and ends[-1] == count * length and not len(ends) % 256
    places = torch.arange(count * length)
    first = ends.long()[torch.searchsorted(ends.long(), places, right=True) - 1]
    assert torch.equal(first, (starts + torch.arange(count)[:, None] * length).flatten().long())


@given(seeds, st.integers(1, 3))
@settings(max_examples=20)
def test_steps_of_stacked_muon_are_those_of_torch(seed: int, steps: int) -> None:
    torch.manual_seed(seed)
    shapes = ((32, 64), (64, 32), (32, 64), (48, 48))
    ours, theirs = ([torch.nn.Parameter(torch.zeros(shape)) for shape in shapes] for _ in range(2))
    idle = torch.nn.Parameter(torch.ones(32, 64))
    stacked = StackedMuon([*ours, idle], lr=0.01, weight_decay=0.1)
    muon = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(steps):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape)
            other.grad = one.grad.clone()
        stacked.step()
        muon.step()
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).norm() <= 0.05 * other.norm()
    assert torch.equal(idle, torch.ones(32, 64)), "it has no gradient"


def test_rows_do_not_depend_on_how_many_processes_make_them(gathered: Path) -> None:
    source, taken = ShardSource(gathered / "train.jsonl", gathered, characters=1_000), list[list[np.ndarray]]()
    for processes in (1, 3):
        batches = Batches(source, processes=processes)
        taken.append([batches.take(2, length) for length in (64, 64, 64, 64, 32, 32)])
        batches.close()
    assert all(map(np.array_equal, *taken))


@pytest.mark.gpu
@pytest.mark.skipif(cuda_missing() is not None, reason=cuda_missing() or "")
def test_samples_of_rows_attend_as_their_mask_says_forward_and_back() -> None:
    rows = torch.randint(20, 500, (3, 512), device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    rows[:, ::47] = bpe.ID[bpe.END]
    starts = sample_starts(rows)
    q, k, v, push = torch.randn(4, 3, 512, 5, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True).unbind()
    outs = [attend(q, k, v, starts) for attend in (attend_samples, attend_masked)]
    found, expected = ([out, *torch.autograd.grad(out, (q, k, v), push)] for out in outs)
    assert all((ours - theirs).norm() <= ROUGH * theirs.norm() for ours, theirs in zip(found, expected, strict=True))
