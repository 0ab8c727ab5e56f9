"""The engine over the GPU's decoder on the CPU: the same text as over the CPU's; and where it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.completion.completer import Completer
from efim_ls.request import Request
from model_runtime.cancel import NEVER, Cancelled
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import Weights, read_weights
from model_runtime.decoder.any_decoder import Runtime
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.gpu import device
from model_runtime.decoder.gpu import load as gpu_loading
from model_runtime.decoder.gpu.attention import choose_attention
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.kernels import Kernels
from model_runtime.decoder.gpu.slab import Slab
from model_runtime.engine.decode import DecodeContext
from model_runtime.engine.drafts import NO_DRAFT
from model_runtime.engine.engine import GenerateJob
from model_runtime.engine.local import EngineParts, LocalEngine
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.sampler import LEAST_CHANCE, Sampler
from model_runtime.errors import ModelError
from model_runtime.kv.layout import fingerprint
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ENDLESS, Watched
from tests.engine.gpu.loading import load_here, unrecorded
from tests.engine.prompts import A, B, after, prompt_of
from tests.models import CODE, reshaped
from tests.sized import Sized
from tests.waiting import HANG

CAPACITY, ARENAS = 400, 2
MIB = 1 << 20


def gpu_runtime(config: ModelConfig, weights: Weights, capacity: int, arenas: int) -> Runtime:
    """What the GPU would compute with, on the CPU."""
    slab = Slab(config, capacity, arenas, torch.float32, torch.device("cpu"))
    how = choose_attention(slab, config.full.heads)
    decoder = GpuDecoder(config, weights, slab, how.attend, Kernels(), unrecorded)
    return Runtime(0, decoder, slab.arena, arenas, "fp32", "fp32 slab", "steps", "", how.backend, how.reason)


def gpu_parts(folder: Path, tokenizer: Tokenizer, cache: Ngrams | None = None) -> EngineParts:
    config = read_config(folder)
    runtime = gpu_runtime(config, read_weights(folder, config), CAPACITY, ARENAS)
    return EngineParts(DecodeContext.of(runtime.decoder, tokenizer, cache), Pool(runtime.arena, ARENAS), CAPACITY)


typed_texts = st.sampled_from(["", "def ", "def wri", "def write(path", "x = 1\ny = 2\n", "x = 1\n", "x"])


@settings(max_examples=15)
@given(
    requests=st.lists(st.tuples(typed_texts, st.sampled_from([A, B, FrameId("c")])), min_size=1, max_size=6),
    cache=st.sampled_from([None, CACHE]),
)
def test_it_says_what_the_cpus_engine_says(
    folder: Path,
    decoder: Decoder,
    tokenizer: Tokenizer,
    requests: list[tuple[str, FrameId]],
    cache: Ngrams | None,
) -> None:
    engine = LocalEngine(gpu_parts(folder, tokenizer, cache))
    other = Watched(decoder, tokenizer, CAPACITY, ARENAS, cache)
    for typed, owner in requests:
        prompt = prompt_of(tokenizer, typed)
        made = engine.generate(GenerateJob(owner, prompt, ENDLESS, 10), NEVER)
        expected = other.generate(GenerateJob(owner, prompt, ENDLESS, 10), NEVER)
        assert (made.text, made.reused) == (expected.text, expected.reused)


@pytest.mark.parametrize("passes", [0, 1, 2, 4])
def test_it_stops_before_the_next_pass(folder: Path, tokenizer: Tokenizer, passes: int) -> None:
    parts, prompt = gpu_parts(folder, tokenizer), prompt_of(tokenizer, "def ")
    with pytest.raises(Cancelled):
        LocalEngine(parts).generate(GenerateJob(A, prompt, ENDLESS, 12), after(passes))
    arena = parts.pool.get(A)
    assert arena is not None
    assert arena.length <= passes * (GpuDecoder.chunk + 15)


class OnDevice(torch.Tensor):
    """Numbers of which only those that are likely may be fetched."""

    def cpu(self) -> torch.Tensor:  # type: ignore[override]
        assert self.numel() <= 1 / LEAST_CHANCE, "fetched"
        return torch.Tensor.cpu(self).as_subclass(torch.Tensor)

    def numpy(self) -> None:  # type: ignore[override]
        raise AssertionError("fetched")

    tolist = numpy  # type: ignore[assignment]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**16), stub=st.sampled_from([b"", b"a", b"de", b"\n    "]), levels=st.sampled_from([3, 1000])
)
def test_the_likeliest_token_is_found_where_the_logits_are(
    tokenizer: Tokenizer, seed: int, stub: bytes, levels: int
) -> None:
    """Of equals the first, as ever; what lies beyond the vocabulary is none of it."""
    sampler = Sampler(tokenizer, None)
    logits = torch.randint(levels, (tokenizer.vocab + 7,), generator=torch.Generator().manual_seed(seed)).float()
    logits[-1] = 9999.0
    scores = logits.numpy()
    spells = [i for i in range(tokenizer.vocab) if not stub or sampler.spells(i, stub)]
    choice = sampler.pick(cast(torch.Tensor, logits.as_subclass(OnDevice)), NO_DRAFT, stub)
    picked = choice.token
    assert picked in spells and scores[picked] == max(scores[i] for i in spells)
    assert stub or picked == min(spells, key=lambda i: -scores[i])
    chances = torch.softmax(logits[: tokenizer.vocab], 0)
    assert choice.whole == (not stub or chances[picked] >= LEAST_CHANCE)
    if not choice.whole:
        among = torch.full_like(chances, -torch.inf)
        among[spells] = logits[spells]
        chances = torch.softmax(among, 0)
    assert choice.chance == pytest.approx(chances[picked].item())
    assert sorted(choice.likely) == [i for i in range(tokenizer.vocab) if chances[i] >= LEAST_CHANCE]


# Which device, and why


def pretend(monkeypatch: pytest.MonkeyPatch, free_mib: int, missing: str | None = None) -> None:
    monkeypatch.setattr(device, "cuda_missing", lambda: missing)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free_mib * MIB, 80_000 * MIB))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda gpu: "A GPU")


def choice(folder: Path, wanted: device.Device, kv_memory_mib: int = 512) -> device.DeviceChoice:
    return device.choose_device(wanted, read_config(folder), kv_memory_mib)


def test_what_lacks_is_the_reason_for_the_cpu_and_an_error_where_the_gpu_was_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 80_000, "there is no usable NVIDIA GPU")
    assert choice(folder, "auto")[:2] == ("cpu", "there is no usable NVIDIA GPU")
    assert choice(folder, "cpu")[:2] == ("cpu", "asked for by the setting")
    with pytest.raises(ModelError, match="no usable NVIDIA GPU: set device to 'auto' or 'cpu'"):
        choice(folder, "cuda")


def test_a_gpu_is_taken_where_the_model_fits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 2000)
    assert choice(folder, "auto")[:2] == ("cuda", "A GPU is faster")
    assert choice(folder, "cuda")[:2] == ("cuda", "A GPU, asked for by the setting")
    assert choice(folder, "cpu").device == "cpu"


def test_memory_that_does_not_suffice_is_told_in_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 1530)
    numbers = (
        "needs 1537 MiB of GPU memory .bf16 weights 1, keys and values 512, 1024 for computing. and 1530 are free"
    )
    with pytest.raises(ModelError, match=numbers):
        choice(folder, "cuda")
    assert choice(folder, "auto").device == "cpu" and choice(folder, "auto", 500).device == "cuda"


def test_int8_fits_where_bf16_does_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 8000)
    large = reshaped(read_config(folder), hidden=4096, intermediate=11008, layers=32, heads=256)
    assert "bf16 weights 10324" in device.choose_device("auto", large, 512, device.gpu_format("auto")).reason
    assert device.choose_device("auto", large, 512, device.gpu_format("int8")).device == "cuda"
    with pytest.raises(ModelError, match=r"int8 weights 5337, keys and values 2048"):
        device.choose_device("cuda", large, 2048, device.gpu_format("int8"))


def test_a_model_that_is_loaded_says_where_it_runs_and_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = load_here(folder, "cpu")
    told = here.parts.description
    assert (told.device, told.device_reason) == ("cpu", "asked for by the setting")
    pretend(monkeypatch, 80_000)
    monkeypatch.setattr(gpu_loading, "load_on_gpu", lambda *given: gpu_runtime(*given[:4]))
    there = load_here(folder, "cuda")
    told = there.parts.description
    assert (told.device, told.device_reason) == ("cuda", "A GPU, asked for by the setting")
    assert told.arenas == 2 * here.parts.description.arenas, "bf16 takes half the memory"
    assert there.kv.fingerprint != here.kv.fingerprint


def test_what_a_user_is_told_of_an_answer_on_a_gpu_counts_reused_tokens_as_approximate(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed through as well: its text rests on what was reused."""
    pretend(monkeypatch, 80_000)
    monkeypatch.setattr(gpu_loading, "load_on_gpu", lambda *given: gpu_runtime(*given[:4]))
    settings = Sized(str(folder), device="cuda", persist=False, suggestions=0.0)
    completer = Completer.load(replace(settings, head_tokens=120, tail_tokens=40), lambda stage, percent: None)
    text = CODE[:300]
    cold, warm = (completer.complete(Request("a", text, len(text), explicit=True), NEVER) for _ in range(2))
    assert (cold.costs.reused, cold.costs.approximate) == (0, 0) and cold.text
    assert warm.costs.approximate == warm.costs.reused > 0
    text += cold.text[0]
    through = completer.complete(Request("a", text, len(text), explicit=True), NEVER)
    assert through.text == cold.text[1:] and through.costs.recomputed == 0
    assert through.costs.approximate == through.costs.reused > 0
    completer.close(HANG)


def test_keys_of_one_device_are_not_taken_for_those_of_another(folder: Path) -> None:
    config = read_config(folder)
    prints = {fingerprint([b""], config, [form]) for form in ("fp32", "fp16", "int8", "bf16 cuda", "int8 cuda")}
    assert len(prints) == 5
