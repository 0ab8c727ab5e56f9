"""On a GPU: operators, kernels and recorded passes against the same computed on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.machine import cuda_missing

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(cuda_missing() is not None, reason=cuda_missing() or "")]
pytest.importorskip("xformers", reason="xformers is not installed")

from model_runtime.checkpoint.config import read_config  # noqa: E402
from model_runtime.checkpoint.weights import read_weights  # noqa: E402
from model_runtime.decoder.any_decoder import Span  # noqa: E402
from model_runtime.decoder.decoder import Decoder  # noqa: E402
from model_runtime.decoder.gpu import attention, kernels  # noqa: E402
from model_runtime.decoder.gpu.attention import BiasBlock, bias_of, bias_of_rows, update_bias  # noqa: E402
from model_runtime.decoder.gpu.decoder import GpuDecoder  # noqa: E402
from model_runtime.decoder.gpu.device import Device, GpuFormat  # noqa: E402
from model_runtime.decoder.gpu.graphs import LISTED_ROWS, graph_recorder  # noqa: E402
from model_runtime.decoder.gpu.slab import WIDTHS, Slab  # noqa: E402
from model_runtime.decoder.streams import torch_decoder  # noqa: E402
from model_runtime.decoder.weights.layer import Norm  # noqa: E402
from model_runtime.engine.engine import GenerateJob  # noqa: E402
from model_runtime.engine.local import LocalEngine  # noqa: E402
from model_runtime.engine.stops import StopRule  # noqa: E402
from model_runtime.kv.arena import Arena, DenseArena  # noqa: E402
from model_runtime.kv.pool import FrameId  # noqa: E402
from model_runtime.kv.sequence import Quality  # noqa: E402
from model_runtime.loading.checkpoint_reader import read_checkpoint  # noqa: E402
from model_runtime.loading.load import LoadedModel, load  # noqa: E402
from model_runtime.prompt.prompt import build  # noqa: E402
from tests.engine.decoder.test_decoder import SHAPES  # noqa: E402
from tests.engine.gpu.loading import unrecorded  # noqa: E402
from tests.engine.gpu.test_gpu_decoder import rounded  # noqa: E402
from tests.models import CODE, VOCABULARY, Family, Tiny, make  # noqa: E402

CAPACITY, ARENAS = 300, 4
TOTAL = 2000
ROUGH = 0.02  # of the logits' spread: what bf16 may cost, root mean square
SAME = 0.95  # of the likeliest tokens must be fp32's
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CAPACITY).astype(np.int32)
ENDLESS = StopRule(multiline=True, indent=0, max_lines=10_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"), Tiny("qwen2", context=1024, seed=3), half=True)


@pytest.fixture(scope="module")
def cpu(folder: Path) -> Decoder:
    config = read_config(folder)
    return Decoder(config, read_weights(folder, config), "fp32")


@pytest.fixture(scope="module")
def slab(folder: Path) -> Slab:
    return Slab(
        read_config(folder), CAPACITY, ARENAS, torch.bfloat16, torch.device("cuda", torch.cuda.current_device())
    )


@pytest.fixture(scope="module")
def decoder(folder: Path, slab: Slab) -> GpuDecoder:
    config = read_config(folder)
    how = attention.choose_attention(slab, config.full.heads)
    return GpuDecoder(
        config, read_weights(folder, config), slab, how.attend, kernels.compiled_kernels(), graph_recorder()
    )


@pytest.fixture(scope="module")
def arenas(slab: Slab) -> list[Arena]:
    return [slab.arena() for _ in range(ARENAS)]


def spread(logits: torch.Tensor) -> float:
    return float(logits.float().square().mean().sqrt())


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = ROUGH) -> bool:
    assert found.shape == expected.shape
    return spread(found.cpu().float() - expected.cpu().float()) <= tolerance * spread(expected)


def tensors(rows: int, heads: int, kv_heads: int, dim: int) -> list[torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(rows)
    shapes = ((rows, heads, dim), (TOTAL, kv_heads, dim), (TOTAL, kv_heads, dim))
    return [torch.randn(shape, generator=generator, device="cuda").bfloat16() for shape in shapes]


# Attention


@pytest.mark.parametrize("dim", [16, 64, 128])
@pytest.mark.parametrize("heads", [(12, 2), (4, 4), (8, 1)])
def test_wide_passes_attend_as_the_bias_written_out_says(heads: tuple[int, int], dim: int) -> None:
    blocks = [BiasBlock(1200, 400, 100), BiasBlock(0, 37, 37), BiasBlock(600, 300, 1)]
    q, k, v = tensors(138, *heads, dim)
    bias = bias_of(blocks, TOTAL, q.device)
    found = attention.attend_flash(q, k, v, bias, dim**-0.5)
    assert close(found, attention.attend_materialized(q.float(), k.float(), v.float(), bias, dim**-0.5))


@pytest.mark.parametrize("rows", [1, 2, 8, 64])
@pytest.mark.parametrize("dim", [16, 64, 128])
@pytest.mark.parametrize("heads", [(12, 2), (4, 4), (8, 1)])
def test_single_rows_attend_as_the_bias_written_out_says(heads: tuple[int, int], dim: int, rows: int) -> None:
    q, k, v = tensors(rows, *heads, dim)
    generator = np.random.default_rng(rows)
    starts = torch.full((rows + 1,), TOTAL, dtype=torch.int32, device="cuda")
    lengths = torch.ones(rows, dtype=torch.int32, device="cuda")
    bias = bias_of_rows(starts, lengths, 512, TOTAL)
    for _ in range(3):  # the same bias again, where only numbers on the device are others
        firsts = generator.integers(0, TOTAL - 512, rows).astype(np.int32)
        ends = generator.integers(1, 513, rows).astype(np.int32)
        starts[:-1], lengths[:] = torch.as_tensor(firsts), torch.as_tensor(ends)
        update_bias(bias, firsts, ends)
        expected = attention.attend_materialized(q.float(), k.float(), v.float(), bias, dim**-0.5)
        for attend in (attention.single_rows_split(attention.attend_flash), attention.attend_flash):
            assert close(attend(q, k, v, bias, dim**-0.5), expected)


def test_both_operators_run_on_this_card(folder: Path) -> None:
    """Or else the answer would only be slower, and no other test would say so."""
    slab = Slab(
        read_config(folder), CAPACITY, ARENAS, torch.bfloat16, torch.device("cuda", torch.cuda.current_device())
    )
    assert "triton_splitK" in attention.choose_attention(slab, read_config(folder).full.heads).backend
    assert not slab.k.any() and not slab.v.any(), "the slab is left empty"


# Passes


@pytest.fixture
def compiled() -> Iterator[kernels.Kernels]:
    """Compiled for one model, as a process has it: of too many, the last ones would not be compiled."""
    torch.compiler.reset()
    yield kernels.compiled_kernels()
    torch.compiler.reset()


@pytest.mark.parametrize("rich", [False, True])
def test_compiled_parts_compute_what_the_plain_ones_do(compiled: kernels.Kernels, rich: bool) -> None:
    """With all that a model may have, and with as little as Llama has."""
    plain, dim = kernels.Kernels(), 16

    def some(*size: int) -> torch.Tensor:
        return torch.randn(size, device="cuda")

    norm = Norm(some(64), some(64) if rich else None)
    bias, heads = some(64) if rich else None, kernels.Heads(some(8, dim), some(6, dim) if rich else None, 1e-6)
    with torch.no_grad():
        for rows in (1, 2, 5, 64, 100):
            x, turn = some(rows, 64), (some(rows, dim), some(rows, dim))
            y, qkv = some(rows, 64).bfloat16(), some(rows, 8, dim).bfloat16()
            at = torch.randperm(TOTAL, device="cuda")[:rows].int()
            kept = [torch.zeros(TOTAL, 2, dim, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
            own = some(rows, 2, dim).bfloat16() if rich else None
            found = compiled.rotate_and_store(qkv, heads, own, turn, at, *kept[:2])
            assert close(found, plain.rotate_and_store(qkv, heads, own, turn, at, *kept[2:]))
            assert close(kept[0], kept[2]) and torch.equal(kept[1], kept[3])
            assert close(compiled.apply_norm(x, norm, 1e-6, y.dtype), plain.apply_norm(x, norm, 1e-6, y.dtype))
            added = x, y, bias, norm, 1e-6
            assert all(map(close, compiled.add_and_norm(*added), plain.add_and_norm(*added)))
            opened = y, x.bfloat16(), some(4, 16)
            assert close(compiled.open_heads(*opened), plain.open_heads(*opened))
            way = ("gelu_tanh", False) if rich else ("silu", True)
            assert close(compiled.activate(y, bias, *way), plain.activate(y, bias, *way))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_compiled_products_of_whole_numbers_compute_what_the_plain_one_does(
    compiled: kernels.Kernels, dtype: torch.dtype
) -> None:
    with torch.no_grad():
        for rows in (*WIDTHS, 100):
            for outputs, size in ((192, 48), (48, 64), (160, 48), (48, 80), (48, 48), (1000, 3000)):
                x = torch.randn(rows, size, device="cuda").bfloat16()
                numbers = torch.randint(-127, 128, (outputs, size), device="cuda").to(torch.int8)
                scale = torch.rand(outputs, device="cuda")
                expected = x.double() @ (numbers * scale[:, None]).double().T
                found = compiled.scaled_product(x, numbers, scale, dtype)
                assert found.dtype == dtype and close(found, expected, 1e-4 if dtype == torch.float32 else 0.004)


WAYS: list[tuple[Family, GpuFormat]] = [
    ("qwen2", "int8"), ("qwen3", "bf16"), ("starcoder2", "bf16"), ("starcoder2", "int8"), ("gemma", "bf16"),
    ("granite", "bf16"), ("efim", "bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "form"), WAYS, ids=map(" ".join, WAYS))
def test_every_family_is_close_to_the_cpus(
    tmp_path: Path, compiled: kernels.Kernels, family: Family, form: GpuFormat
) -> None:
    folder = make(tmp_path, Tiny(family, context=1024, seed=3), half=True)
    config, weights = read_config(folder), read_weights(folder, read_config(folder))
    weights = rounded(weights) if form == "int8" else weights
    slab = Slab(config, CAPACITY, 1, torch.bfloat16, torch.device("cuda", torch.cuda.current_device()))
    how = attention.choose_attention(slab, config.full.heads)
    decoder, arena = GpuDecoder(config, weights, slab, how.attend, compiled, graph_recorder(), form), slab.arena()
    expected = Decoder(config, weights, "fp32").forward(TOKENS, DenseArena(config, CAPACITY), CAPACITY)
    cuts = np.cumsum([1, 2, 1, 5, 16, 40, 64, 100])
    logits = torch.cat([decoder.forward(ids, arena, len(ids)) for ids in np.split(TOKENS, cuts)]).cpu()
    assert close(logits, expected)
    assert (logits.argmax(1) == expected.argmax(1)).float().mean() >= SAME


@pytest.mark.parametrize("chunk", [1, 3, 16, 64, 150])
def test_logits_are_close_to_the_cpus_in_chunks_of_any_size(
    cpu: Decoder, decoder: GpuDecoder, arenas: list[Arena], chunk: int
) -> None:
    arena, other = arenas[1], DenseArena(cpu.config, CAPACITY)
    arena.truncate(0)
    expected = cpu.forward(TOKENS, other, CAPACITY)
    found = [decoder.forward(ids, arena, len(ids)) for ids in np.split(TOKENS, range(chunk, CAPACITY, chunk))]
    logits = torch.cat(found).cpu()
    assert logits.dtype == torch.float32 and close(logits, expected)
    assert (logits.argmax(1) == expected.argmax(1)).float().mean() >= SAME


def test_several_arenas_in_one_pass_truncated_and_copied(
    cpu: Decoder, decoder: GpuDecoder, arenas: list[Arena]
) -> None:
    others = [DenseArena(cpu.config, CAPACITY) for _ in arenas]
    for arena in arenas:
        arena.truncate(0)
    for given, model in ((arenas, decoder), (others, cpu)):
        model.forward(TOKENS[:200], given[0])
        given[2].copy_prefix(given[0], 150)
        given[0].truncate(90)
    steps = [((3, 1, 5), (2, 1, 5)), ((1, 1, 1), (1, 1, 1)), ((40, 80, 30), (1, 3, 2))]
    for sizes, rows in steps:
        found, expected = (
            model.forward_spans([
                Span(TOKENS[given[i].length :][:size], given[i], wanted)
                for i, size, wanted in zip((2, 0, 3), sizes, rows, strict=True)
            ])
            for given, model in ((arenas, decoder), (others, cpu))
        )  # fmt: skip
        assert close(found, expected)


@pytest.mark.parametrize("count", [1, 30, 150])
def test_tokens_computed_again_in_place_are_close_to_those_of_a_run(
    decoder: GpuDecoder, arenas: list[Arena], count: int
) -> None:
    arena, whole = arenas[:2]
    whole.truncate(0)
    at = np.sort(np.random.default_rng(count).choice(200, count, replace=False)).astype(np.int32)
    expected = decoder.forward(TOKENS[:200], whole, 200)[at]
    arena.copy_prefix(whole, 200)
    arena.k[:, :, at] = arena.v[:, :, at] = torch.nan
    assert close(decoder.forward_spans([Span(TOKENS[at], arena, count, at)]), expected)
    assert arena.length == 200


def test_a_recorded_pass_gives_what_the_same_kernels_give_unrecorded(
    folder: Path, slab: Slab, decoder: GpuDecoder, arenas: list[Arena]
) -> None:
    config = read_config(folder)
    attend = attention.choose_attention(slab, config.full.heads).attend
    plain = GpuDecoder(config, read_weights(folder, config), slab, attend, kernels.compiled_kernels(), unrecorded)
    arena = arenas[0]
    arena.truncate(0)
    decoder.forward(TOKENS[:100], arena)
    for rows in (1, 2, 7, 33):
        first = decoder.forward(TOKENS[100 : 100 + rows], arena, rows)
        arena.truncate(100)
        assert close(plain.forward(TOKENS[100 : 100 + rows], arena, rows), first, 1e-3)
        arena.truncate(100)


def test_a_decode_step_neither_allocates_nor_waits_for_a_copy(decoder: GpuDecoder, arenas: list[Arena]) -> None:
    """Its next token is chosen from what the pass brings along."""
    arena, said = arenas[0], list[int]()
    arena.truncate(0)
    decoder.forward(TOKENS[:100], arena)
    for token in TOKENS[100:103]:
        decoder.forward(np.array([token]), arena)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["segment.all.allocated"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        for token in TOKENS[103:140]:
            decoder.forward(np.array([token]), arena)
            assert decoder.top_tokens is not None
            said.append(int(decoder.top_tokens[0].ids[0]))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats()["segment.all.allocated"] == before
    arena.truncate(103)
    assert said == [int(decoder.forward(np.array([token]), arena)[0].argmax()) for token in TOKENS[103:140]]


@pytest.mark.parametrize("rows", [1, 3, LISTED_ROWS])
def test_a_pass_lists_the_likeliest_tokens_after_its_rows(
    decoder: GpuDecoder, arenas: list[Arena], rows: int
) -> None:
    arena = arenas[0]
    arena.truncate(0)
    decoder.forward(TOKENS[:100], arena)
    assert decoder.top_tokens is None, "a wide pass lists none"
    logits = decoder.forward(TOKENS[100 : 100 + rows], arena, rows)
    listed = decoder.top_tokens
    assert listed is not None and len(listed) == rows
    for row, found in zip(logits, listed, strict=True):
        assert found.ids[0] == int(row.argmax())
        assert np.array_equal(found.logits, row.sort(descending=True).values[: len(found.ids)].cpu().numpy())
        assert found.total == pytest.approx(float(row.logsumexp(0)), abs=1e-4)


def test_blocks_come_back_bit_by_bit(decoder: GpuDecoder, arenas: list[Arena]) -> None:
    first, second = arenas[:2]
    first.truncate(0)
    second.truncate(0)
    decoder.forward(TOKENS[:64], first)
    for start in range(0, 64, 16):
        second.copy_in(TOKENS[start : start + 16], first.copy_out(start, start + 16), Quality.EXACT)
    for one, other in ((second.k, first.k), (second.v, first.v)):
        assert torch.equal(torch.as_tensor(one)[:, :, :64], torch.as_tensor(other)[:, :, :64])


KINDS = ("qwen2, upper layers slide", "mistral, all slide", "gemma3", "cohere2", "mixtral", "qwen3 with experts")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_close_to_the_cpus(tmp_path: Path, compiled: kernels.Kernels, kind: str) -> None:
    folder = make(tmp_path, SHAPES[kind], half=True)
    config, weights = read_config(folder), read_weights(folder, read_config(folder))
    slab = Slab(config, CAPACITY, 1, torch.bfloat16, torch.device("cuda", torch.cuda.current_device()))
    how = attention.choose_attention(slab, config.full.heads)
    decoder, arena = GpuDecoder(config, weights, slab, how.attend, compiled, graph_recorder()), slab.arena()
    expected = torch_decoder(config, weights, "fp32").forward(TOKENS, DenseArena(config, CAPACITY), CAPACITY)
    cuts = np.cumsum([1, 2, 1, 5, 16, 40, 64, 100])
    logits = torch.cat([decoder.forward(ids, arena, len(ids)) for ids in np.split(TOKENS, cuts)]).cpu()
    print(kind, spread(logits.float() - expected.float()) / spread(expected), how.backend)
    assert close(logits, expected, 2 * ROUGH)


# The engine


def loaded(folder: Path, device: Device, weights: Literal["auto", "fp32", "int8"]) -> LoadedModel:
    return load(
        read_checkpoint(folder),
        device=device,
        weights=weights,
        threads=2,
        capacity=600,
        kv_memory_mib=4,
        ngrams=False,
        progress=lambda stage, percent: None,
    )


@pytest.mark.parametrize(("weights", "form"), [("auto", "bf16"), ("int8", "int8")])
def test_the_engine_says_nearly_always_what_the_cpus_says_and_stops_when_told(
    folder: Path, weights: Literal["auto", "int8"], form: GpuFormat
) -> None:
    torch.compiler.reset()
    here, there = loaded(folder, "cpu", "fp32"), loaded(folder, "cuda", weights)
    assert (there.parts.description.device, there.parts.description.weights) == ("cuda", form)
    assert torch.cuda.get_device_name() in there.parts.description.device_reason
    assert there.kv.fingerprint != here.kv.fingerprint
    prompts = [build(here.tokenizer, here.template, CODE[end - 200 : end], "", "") for end in range(200, 1000, 40)]
    jobs = [GenerateJob(FrameId("a"), prompt, ENDLESS, 8) for prompt in prompts]
    engines = [LocalEngine(model.parts) for model in (here, there)]
    texts = [[engine.generate(job, NEVER).text for job in jobs] for engine in engines]
    same = [one == other for one, other in zip(*texts, strict=True)]
    assert sum(same) >= 0.8 * len(same)
    with pytest.raises(Cancelled):
        engines[1].generate(GenerateJob(FrameId("stopped"), prompts[0], ENDLESS, 8), Cancel(lambda: True))
