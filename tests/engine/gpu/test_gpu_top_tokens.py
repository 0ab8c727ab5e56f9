"""What a GPU lists of its logits, and that a choice by the list is the choice by all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import TopTokens
from model_runtime.decoder.gpu.attention import choose_attention
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.graphs import LISTED_ROWS, MOST_LIKELIEST, TopTokensTable
from model_runtime.decoder.gpu.kernels import Kernels
from model_runtime.decoder.gpu.slab import Slab
from model_runtime.engine.decode import DecodeContext
from model_runtime.engine.drafts import NO_DRAFT
from model_runtime.engine.engine import GenerateJob
from model_runtime.engine.local import EngineParts, LocalEngine
from model_runtime.engine.sampler import LEAST_CHANCE, Sampler
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import ENDLESS
from tests.engine.gpu.loading import unrecorded
from tests.engine.prompts import A, B, prompt_of

CPU = torch.device("cpu")
CAPACITY = 400


def listed(logits: torch.Tensor, choices: int) -> list[TopTokens]:
    table = TopTokensTable(len(logits), choices, CPU)
    table.write(logits)
    table.fetch()
    return [table.read(row) for row in range(len(logits))]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**16), choices=st.sampled_from([3, 255, 256, 257, 700]), levels=st.sampled_from([4, 5000])
)
def test_a_list_has_the_likeliest_tokens_in_order_and_nothing_of_the_padding(
    seed: int, choices: int, levels: int
) -> None:
    logits = torch.randint(levels, (3, 700), generator=torch.Generator().manual_seed(seed)).float() / 50
    for row, found in zip(logits[:, :choices].numpy(), listed(logits, choices), strict=True):
        assert len(found.ids) == min(MOST_LIKELIEST, choices) and found.choices == choices
        assert np.array_equal(found.logits, np.sort(row)[::-1][: len(found.ids)])
        assert np.array_equal(row[found.ids], found.logits)
        pairs = list(zip((-found.logits).tolist(), found.ids.tolist(), strict=True))
        assert pairs == sorted(pairs), "of equals the first token comes first"
        assert found.total == pytest.approx(np.log(np.exp(row.astype(np.float64)).sum()), abs=1e-5)


class Searched(torch.Tensor):
    """Logits that must not be looked at."""

    def __getitem__(self, index: object) -> torch.Tensor:
        raise AssertionError("searched")


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**16),
    stub=st.sampled_from([b"", b"a", b"de", b"\n    ", b"\xff\xff"]),
    spread=st.sampled_from([0.0, 0.5, 3.0, 12.0]),
    levels=st.sampled_from([2, 30, 10_000]),
)
def test_a_choice_by_the_list_is_the_choice_by_all_logits(
    tokenizer: Tokenizer, seed: int, stub: bytes, spread: float, levels: int
) -> None:
    """Flat distributions, equals at the list's end and stubs that nothing likely spells among them."""
    sampler = Sampler(tokenizer, None)
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(levels, (tokenizer.vocab + 7,), generator=generator).float() * (spread / levels * 4)
    logits[-1] = 9999.0
    [likeliest] = listed(logits[None], tokenizer.vocab)
    expected, found = sampler.pick(logits, NO_DRAFT, stub), sampler.pick(logits, NO_DRAFT, stub, likeliest)
    assert (found.token, found.whole) == (expected.token, expected.whole)
    assert found.chance == pytest.approx(expected.chance, rel=1e-5)
    chances = torch.softmax(logits[: tokenizer.vocab], 0)
    if not (abs(chances - LEAST_CHANCE) < 1e-8).any():
        assert found.likely.tolist() == expected.likely.tolist()
        assert np.allclose(found.chances, expected.chances, rtol=1e-5)


def test_logits_are_not_searched_where_the_list_settles_the_choice(tokenizer: Tokenizer) -> None:
    sampler = Sampler(tokenizer, None)
    logits = torch.zeros(tokenizer.vocab)
    logits[[7, 300]] = torch.tensor([20.0, 19.0])
    [likeliest] = listed(logits[None], tokenizer.vocab)
    assert sampler.pick(logits.as_subclass(Searched), NO_DRAFT, b"", likeliest).token == 7
    stub = tokenizer.token_bytes[300][:1]
    assert sampler.pick(logits.as_subclass(Searched), NO_DRAFT, stub, likeliest).token in (7, 300)


def test_a_list_of_another_vocabulary_settles_nothing(tokenizer: Tokenizer) -> None:
    """A decoder that was not told how many tokens there are lists those of the padding, too."""
    logits = torch.zeros(tokenizer.vocab + 7)
    logits[-1] = 50.0
    logits[9] = 5.0
    [likeliest] = listed(logits[None], tokenizer.vocab + 7)
    assert likeliest.ids[0] == tokenizer.vocab + 6
    assert Sampler(tokenizer, None).pick(logits, NO_DRAFT, b"", likeliest).token == 9


# In the engine


def gpu_parts(folder: Path, tokenizer: Tokenizer, listing: bool) -> tuple[EngineParts, GpuDecoder]:
    config = read_config(folder)
    slab = Slab(config, CAPACITY, 2, torch.float32, CPU)
    attend, weights = choose_attention(slab, config.full.heads).attend, read_weights(folder, config)
    decoder = GpuDecoder(config, weights, slab, attend, Kernels(), unrecorded, tokens=tokenizer.vocab)
    if not listing:
        decoder = type("Unlisted", (GpuDecoder,), {"top_tokens": None})(
            config, weights, slab, attend, Kernels(), unrecorded
        )
    return EngineParts(DecodeContext.of(decoder, tokenizer, None), Pool(slab.arena, 2), CAPACITY), decoder


def test_answers_with_lists_are_those_without(folder: Path, tokenizer: Tokenizer) -> None:
    engines = [LocalEngine(gpu_parts(folder, tokenizer, listing)[0]) for listing in (True, False)]
    for typed, owner in (("def wri", A), ("x = 1\n", B), ("def write(path", A), ("def wri", A)):
        prompt = prompt_of(tokenizer, typed)
        one, other = (engine.generate(GenerateJob(owner, prompt, ENDLESS, 12), NEVER) for engine in engines)
        assert [choice.token for choice in one.choices] == [choice.token for choice in other.choices]
        assert one.confidence == pytest.approx(other.confidence, rel=1e-4)


def test_a_pass_lists_what_follows_the_rows_it_returned_and_a_wide_one_nothing(
    folder: Path, tokenizer: Tokenizer
) -> None:
    parts, decoder = gpu_parts(folder, tokenizer, True)
    LocalEngine(parts).generate(GenerateJob(A, prompt_of(tokenizer, ""), ENDLESS, 1), NEVER)
    arena = parts.pool.get(A)
    assert arena is not None
    tokens = np.arange(5, 5 + LISTED_ROWS + 1, dtype=np.int32)
    for rows in (1, 3, LISTED_ROWS):
        arena.truncate(1)
        logits, found = decoder.forward(tokens[:LISTED_ROWS], arena, rows), decoder.top_tokens
        assert found is not None and [int(each.ids[0]) for each in found] == [
            int(row[: tokenizer.vocab].argmax()) for row in logits
        ]
    arena.truncate(1)
    decoder.forward(tokens, arena)
    assert decoder.top_tokens is None


# Whether a warm answer is the cold one


def test_every_reused_token_counts_as_approximate_since_kernels_depend_on_the_width_of_a_pass(
    folder: Path, tokenizer: Tokenizer
) -> None:
    engine = LocalEngine(gpu_parts(folder, tokenizer, True)[0])
    cold = engine.generate(GenerateJob(A, prompt_of(tokenizer, "def "), ENDLESS, 4), NEVER)
    warm = engine.generate(GenerateJob(A, prompt_of(tokenizer, "def wri"), ENDLESS, 4), NEVER)
    assert (cold.reused, cold.approximate) == (0, 0)
    assert warm.approximate == warm.reused > 0
    prompt = prompt_of(tokenizer, "def wri")
    assert engine.approximate(FrameId(A.document, A.frame), prompt) == len(prompt.ids)
