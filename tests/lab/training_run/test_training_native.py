"""The kernels that train on a CPU, against torch in fp32."""

import ctypes
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from efim_lab.gate import network
from efim_lab.workshop.training import objective
from efim_lab.workshop.training.loop import AutogradGradients
from efim_lab.workshop.training.native import chunk, library
from efim_lab.workshop.training.native.gradients import NativeGradients, why_unfit
from efim_lab.workshop.training.native.muon import KernelMuon
from efim_lab.workshop.training.native.products import Int8Operand, Products, Scratch
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.masks import sample_starts
from efim_lab.workshop.training.samples.packing import PADDING
from efim_lab.workshop.training.trainer import Trainer, TrainerSettings
from tests.compiled import require

KERNEL_FLAGS = {"avx512_bf16", "avx512_vnni", "avx512bw", "avx512dq", "avx512vl"}  # as Linux names them


@pytest.fixture(autouse=True, scope="module", params=[True, False], ids=["tiles", "lanes"])
def compiled(request: pytest.FixtureRequest) -> Generator[None]:
    """The kernels as this CPU computes them, and as one without AMX does."""
    require(library.why_unsupported(), KERNEL_FLAGS)
    lib = library.library()
    if request.param and not lib.tiles_usable():
        pytest.skip("this CPU has no AMX")
    lib.train_allow_tiles(request.param)
    yield
    lib.train_allow_tiles(True)


seeds = st.integers(0, 2**32 - 1)
SMALL = network.Shape(vocabulary=512, width=96, layers=2, heads=3, kv_heads=1, feed_forward=96, context=256)
PARTS = ("head_norms", "head_gates", "token_values")
WHOLE = replace(SMALL, **dict.fromkeys(PARTS, True))
# A few numbers whose gradients are sums over all tokens, which nearly cancel; their kernels are tested by themselves.
ROUGHER = {"q_norm": 2, "k_norm": 2, "head_gates": 2}


def halves(*shape: int) -> Tensor:
    return torch.randn(*shape).bfloat16()


def off(found: Tensor, wanted: Tensor) -> float:
    """Return the distance relative to what is wanted."""
    return ((found.float() - wanted).norm() / wanted.norm()).item()


def small_integers(*shape: int) -> Tensor:
    return torch.randint(-4, 5, shape).float()


@given(seeds, st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=20)
def test_products_of_small_integers_are_exact_in_bf16(seed: int, rows: int, columns: int, depth: int) -> None:
    torch.manual_seed(seed)
    weight = small_integers(depth * 32, columns * 32)
    d, out = small_integers(rows * 8, depth * 32).bfloat16(), halves(rows * 8, columns * 32)
    packed = Products(depth * 32, columns * 32, exact_back=True)
    packed.pack(weight)
    packed.backward.multiply(rows * 8, d, out, Scratch(rows * 8, 96))
    assert torch.equal(out, (d.float() @ weight).bfloat16())


@given(seeds, st.integers(1, 9), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=20)
def test_gradients_of_weights_add_up_over_tokens(seed: int, tokens: int, outputs: int, inputs: int) -> None:
    torch.manual_seed(seed)
    d, x = small_integers(tokens * 128, outputs * 32).bfloat16(), small_integers(tokens * 128, inputs * 32).bfloat16()
    before = small_integers(outputs * 32, inputs * 32)
    total = before.clone()
    packed = Products(outputs * 32, inputs * 32, exact_back=False)
    packed.add_gradient(tokens * 128, d, x, total, Scratch(tokens * 128, 96))
    assert torch.equal(total, before + d.float().T @ x.float())


@given(seeds, st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=20)
def test_products_in_int8_are_those_of_the_rounded_operands(seed: int, rows: int, outputs: int, inputs: int) -> None:
    torch.manual_seed(seed)
    weight = torch.randn(outputs * 32, inputs * 32)
    x, y = halves(rows * 8, inputs * 32), halves(rows * 8, outputs * 32)
    scratch = Scratch(rows * 8, 96)
    forward = Int8Operand(inputs * 32, outputs * 32, transposed=True)
    forward.pack(weight)
    forward.multiply(rows * 8, x, y, scratch)
    assert off(y, rounded(x.float(), 1) @ rounded(weight, 1).T) < 0.004  # bf16 rounds the product
    d, back = halves(rows * 8, outputs * 32), halves(rows * 8, inputs * 32)
    backward = Int8Operand(outputs * 32, inputs * 32, transposed=False)
    backward.pack(weight)
    backward.multiply(rows * 8, d, back, scratch)
    assert off(back, rounded(d.float(), 1) @ rounded(weight, 0)) < 0.004


def rounded(x: Tensor, dim: int) -> Tensor:
    """Return what int8 with a scale for each row (dim 1) or column makes of x."""
    scale = x.abs().amax(dim, keepdim=True) / 127
    return (x / scale).round() * scale


WHERE_SAMPLES_BEGIN = ("nowhere", "apart", "anywhere")


@given(
    seeds,
    st.integers(1, 2),
    st.integers(1, 4),
    st.sampled_from([(1, 1), (3, 1), (4, 2)]),
    st.sampled_from(WHERE_SAMPLES_BEGIN),
)
@settings(max_examples=30)
def test_attention_and_its_gradients(seed: int, rows: int, tiles: int, heads: tuple[int, int], where: str) -> None:
    torch.manual_seed(seed)
    (queries, keys), length, lib = heads, tiles * 64, library.library()
    qkv, d = halves(rows, length, (queries + 2 * keys) * 64), halves(rows, length, queries * 64)
    begins = torch.rand(rows, length) < (0 if where == "nowhere" else 0.02)
    starts = (torch.arange(length) * begins).cummax(1).values.int()
    if where == "anywhere":  # later tokens may see what those between do not
        starts = (torch.rand(rows, length) < 0.5) * starts
    out, d_qkv, log_sums = (
        halves(rows, length, queries * 64),
        torch.empty_like(qkv),
        torch.empty(rows, length, queries),
    )
    scratch = torch.empty(lib.train_attention_scratch(length), dtype=torch.uint8)
    sizes = rows, length, queries, keys
    lib.train_attend(*sizes, *library.addresses(starts, qkv, out, log_sums, scratch))
    lib.train_attend_back(*sizes, *library.addresses(starts, qkv, out, d, log_sums, d_qkv, scratch))

    whole = qkv.float().requires_grad_()
    q, k, v = (
        part.view(rows, length, -1, 64).transpose(1, 2)
        for part in whole.split([queries * 64, keys * 64, keys * 64], dim=-1)
    )
    place = torch.arange(length)
    seen = (place <= place[:, None]) & (place >= starts[..., None])
    mixed = scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None], enable_gqa=True)
    wanted = mixed.transpose(1, 2).flatten(2)
    wanted.backward(d.float())
    assert off(out, wanted.detach()) < 0.004
    assert whole.grad is not None
    assert off(d_qkv, whole.grad) < 0.006


@given(seeds, st.integers(1, 40), st.sampled_from([(1, 1), (3, 1), (4, 2)]), st.booleans(), st.booleans())
@settings(max_examples=30)
def test_heads_are_normed_and_turned_and_given_values(
    seed: int, rows: int, heads: tuple[int, int], normed: bool, valued: bool
) -> None:
    torch.manual_seed(seed)
    (queries, keys), length, lib = heads, 8, library.library()
    turned, ids = queries + keys, torch.randint(0, 30, (rows,), dtype=torch.int32)
    raw, d = halves(rows, turned + keys, 64), halves(rows, turned + keys, 64)
    weights, table = torch.randn(2, 64), torch.randn(30, keys, 64)
    turns, scales, placed = network.rotations(length, 64), torch.empty(rows, turned), torch.empty_like(raw)
    used = ((weights[0], normed), (weights[1], normed), (table, valued))
    parts = [part.data_ptr() if is_used else None for part, is_used in used]
    how = library.Heads(rows, queries, keys, length, keys * 64, *library.addresses(turns, ids), *parts, 1e-5)
    totals = torch.zeros(2, 64), torch.zeros_like(table)
    lib.train_place(ctypes.byref(how), *library.addresses(raw, placed, scales))
    found = d.clone()
    lib.train_place_back(ctypes.byref(how), *library.addresses(raw, scales, found, *totals[0], totals[1]))

    x, w, t = (each.float().requires_grad_() for each in (raw, weights, table))
    both = x[:, :turned]
    if normed:
        scaled = torch.rms_norm(both, (64,), eps=1e-5)
        both = torch.cat([scaled[:, :queries] * w[0], scaled[:, queries:] * w[1]], 1)
    (low, high), turn = both.chunk(2, dim=-1), turns[torch.arange(rows) % length]
    cosine, sine = turn[:, None, :32], turn[:, None, 32:]
    values = x[:, turned:] + (t[ids.long()] if valued else 0)
    wanted = torch.cat([torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1), values], 1)
    wanted.backward(d.float())
    assert off(placed, wanted.detach()) < 0.004
    assert x.grad is not None and off(found, x.grad) < 0.004
    if normed:
        assert w.grad is not None and off(totals[0], w.grad) < 1e-4
    if valued:
        assert t.grad is not None and off(totals[1], t.grad) < 1e-6


@given(seeds, st.integers(1, 40), st.integers(1, 4))
@settings(max_examples=20)
def test_gates_scale_heads(seed: int, rows: int, heads: int) -> None:
    torch.manual_seed(seed)
    normed, mixed, d, lib = halves(rows, 32), halves(rows, heads * 64), halves(rows, heads * 64), library.library()
    weights, opened, d_weights = torch.randn(heads, 16), torch.empty_like(mixed), torch.zeros(heads, 16)
    found, d_sums, d_normed, sizes = d.clone(), torch.empty(rows, heads), torch.zeros_like(normed), (rows, 32, heads)
    lib.train_open(*sizes, *library.addresses(normed, weights, mixed, opened))
    lib.train_open_back(*sizes, *library.addresses(normed, weights, mixed, found, d_weights, d_sums))
    lib.train_open_inputs_back(*sizes, *library.addresses(weights, d_sums, d_normed))

    x, w, m = (each.float().requires_grad_() for each in (normed, weights, mixed))
    gates = 2 * torch.sigmoid(x[:, :16] @ w.T)
    wanted = (m.unflatten(1, (heads, 64)) * gates[..., None]).flatten(1)
    wanted.backward(d.float())
    assert off(opened, wanted.detach()) < 0.004
    for ours, theirs in ((found, m), (d_normed, x), (d_weights, w)):
        assert theirs.grad is not None
        assert off(ours, theirs.grad) < 0.005


@given(seeds, st.integers(1, 40))
@settings(max_examples=20)
def test_cross_entropy_and_its_gradient(seed: int, rows: int) -> None:
    torch.manual_seed(seed)
    logits = (torch.randn(rows, 512) * 4).bfloat16()
    targets = torch.randint(0, 512, (rows,)).masked_fill(torch.rand(rows) < 0.2, PADDING)
    whole = logits.float().requires_grad_()
    loss = cross_entropy(whole, targets, ignore_index=PADDING, reduction="sum")
    loss.backward()
    narrow = targets.int()  # alive as long as its address is used
    found = library.library().train_cross_entropy(rows, 512, narrow.data_ptr(), 1.0, logits.data_ptr())
    assert found == pytest.approx(loss.item(), rel=1e-4, abs=1e-4)
    assert whole.grad is not None
    torch.testing.assert_close(logits.float(), whole.grad, rtol=2**-6, atol=1e-6)


def test_padding_has_no_gradient() -> None:
    logits = halves(4, 512)
    targets = torch.full((4,), PADDING, dtype=torch.int32)
    assert library.library().train_cross_entropy(4, 512, targets.data_ptr(), 1.0, logits.data_ptr()) == 0
    assert not logits.any()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "shape, rows, length",
    [
        (SMALL, 3, 128),
        *((replace(SMALL, **{part: True}), 3, 64) for part in PARTS),
        *((WHOLE, *sizes) for sizes in ((1, 64), (3, 128), (20, 64), (1, 256))),
        (replace(WHOLE, heads=4, kv_heads=2), 3, 64),
    ],
)
def test_the_gradients_are_those_of_autograd(
    threads: int, shape: network.Shape, rows: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.manual_seed(rows * length)
    model = network.build(shape)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    ids = torch.randint(len(bpe.SPECIAL), SMALL.vocabulary, (rows, length))  # torch gives padding's row no gradient
    ids[0, -5:] = PADDING
    loss = objective.loss_of(model, ids)
    loss.backward()
    wanted = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    gradients = NativeGradients(model)
    most = 0.025 if library.library().tiles_usable() else 0.07  # without tiles, most products are of int8
    for _ in range(2):  # the second time, buffers hold what the first left
        model.zero_grad()
        assert gradients(ids) == pytest.approx(loss.item(), rel=5e-3)
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            assert off(parameter.grad, wanted[name]) < most * ROUGHER.get(name.split(".")[-2], 1), name


def test_the_gradients_follow_the_weights() -> None:
    torch.manual_seed(0)
    model, ids = network.build(SMALL), torch.randint(0, SMALL.vocabulary, (2, 64))
    gradients = NativeGradients(model)
    descent = torch.optim.SGD(model.parameters(), lr=0.1)
    losses: list[float] = []
    for _ in range(8):
        losses.append(gradients(ids))
        descent.step()
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] - 0.3


def test_a_chunk_of_many_logits_is_predicted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, ids = network.build(SMALL), torch.randint(0, SMALL.vocabulary, (3, 64))
    whole = NativeGradients(model)(ids)
    monkeypatch.setattr(chunk, "LOGIT_ROWS", 64)
    assert NativeGradients(model)(ids) == pytest.approx(whole, rel=1e-6)


def test_a_sample_is_learnt_as_if_alone() -> None:
    torch.manual_seed(0)
    model = network.build(SMALL)
    ordinary = torch.randint(len(bpe.SPECIAL), SMALL.vocabulary, (1, 125))
    end, prefix = torch.tensor([[bpe.ID[bpe.END]]]), torch.tensor([[bpe.ID[bpe.PREFIX]]])
    plain = torch.cat([ordinary[:, :40], end], 1)
    prompt = torch.cat(
        [prefix, ordinary[:, 40:86], ordinary[:, 86:106], end], 1
    )  # no token says that a text follows it
    row = torch.cat([plain, prompt, ordinary[:, 106:]], 1)
    assert sample_starts(row).tolist() == [[0] * 41 + [41] * 68 + [109] * 19]

    apart = torch.full((3, 128), PADDING)
    apart[0, :42], apart[1, :69], apart[2, :19] = row[0, :42], row[0, 41:110], row[0, 109:]
    gradients = NativeGradients(model)
    together = gradients(row)
    wanted = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert gradients(apart) == pytest.approx(together, rel=2e-3)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert off(parameter.grad, wanted[name]) < 0.07, name


def test_gradients_of_isolated_excerpts_are_those_of_a_mask() -> None:
    torch.manual_seed(0)
    model = network.build(SMALL)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    ordinary = iter(torch.randint(len(bpe.ID), SMALL.vocabulary, (256,)).tolist())
    kinds = (bpe.FILE, 30), (bpe.FILE, 9), (bpe.PREFIX, 20), (bpe.SUFFIX, 5), (bpe.MIDDLE, 20), (bpe.END, 0)
    sample = [token for kind, count in kinds for token in (bpe.ID[kind], *(next(ordinary) for _ in range(count)))]
    rows = torch.full((1, 128), PADDING)
    rows[0, : len(sample)] = torch.tensor(sample)
    objective.loss_of_samples(model, rows).backward()  # pyright: ignore[reportUnknownMemberType]
    wanted = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    loss = objective.loss_of_samples(model, rows).item()
    model.zero_grad()
    assert NativeGradients(model)(rows) == pytest.approx(loss, rel=2e-3)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert off(parameter.grad, wanted[name]) < 0.07, name
    assert objective.loss_of(model, rows).item() != pytest.approx(loss, rel=1e-3)


@given(seeds, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=20)
def test_steps_of_muon_are_those_of_torch(seed: int, rows: int, columns: int, steps: int) -> None:
    torch.manual_seed(seed)
    ours, theirs = (torch.nn.Parameter(torch.zeros(rows * 32, columns * 32)) for _ in range(2))
    other = torch.nn.Parameter(torch.ones(32, 32))
    kernel = KernelMuon([ours, other], lr=0.01, weight_decay=0.1)
    muon = torch.optim.Muon([theirs], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(steps):
        ours.grad = torch.randn(ours.shape)
        theirs.grad = ours.grad.clone()
        kernel.step()
        muon.step()
    assert off(ours, theirs) < 0.05  # each is up to 0.02 from what exact sums would give
    assert torch.equal(other, torch.ones(32, 32))  # it had no gradient


def test_a_checkpoint_of_muon_goes_on() -> None:
    torch.manual_seed(0)
    gradients = [torch.randn(64, 32) for _ in range(4)]
    whole, first, second = (torch.nn.Parameter(torch.zeros(64, 32)) for _ in range(3))
    _descend(KernelMuon([whole], lr=0.01, weight_decay=0.1), whole, gradients)
    stopped = KernelMuon([first], lr=0.01, weight_decay=0.1)
    _descend(stopped, first, gradients[:2])
    resumed = KernelMuon([second], lr=0.01, weight_decay=0.1)
    resumed.load_state_dict(stopped.state_dict())
    second.data.copy_(first.data)
    _descend(resumed, second, gradients[2:])
    assert torch.equal(whole, second)


def _descend(optimizer: KernelMuon, matrix: torch.nn.Parameter, gradients: list[Tensor]) -> None:
    for gradient in gradients:
        matrix.grad = gradient
        optimizer.step()


def test_shapes_that_the_kernels_cannot_train_are_named() -> None:
    assert why_unfit(SMALL) is None
    assert "heads of 64 elements, not 32" in (why_unfit(replace(SMALL, head_dim=32)) or "")
    assert "unlike width 100, vocabulary 500" in (why_unfit(replace(SMALL, width=100, vocabulary=500)) or "")


@pytest.mark.parametrize("fit", [True, False])
def test_the_trainer_says_why_it_does_without_the_kernels(
    fit: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = SMALL if fit else replace(SMALL, vocabulary=500)
    trainer = Trainer(TrainerSettings(shape=shape), tmp_path, compiled=False)
    rows = torch.randint(len(bpe.SPECIAL), 500, (2, 64))
    assert isinstance(trainer.learner.gradients, NativeGradients if fit else AutogradGradients)
    assert trainer.learner.gradients(rows) > 0
    assert ("autograd: the kernels want sizes" in capsys.readouterr().out) is not fit


def test_missing_kernels_are_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library.library.cache_clear()
    monkeypatch.setattr(library, "library_path", lambda: tmp_path / "missing.so")
    try:
        assert "was not built: run python setup.py kernels" in (library.why_unsupported() or "")
    finally:
        library.library.cache_clear()
