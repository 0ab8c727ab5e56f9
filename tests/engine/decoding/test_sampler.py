"""What a choice tells of itself is what the whole distribution says, whatever was typed since it was made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model_runtime.engine.native import library
from model_runtime.engine.ngrams import Ngrams
from model_runtime.engine.output import Output
from model_runtime.engine.sampler import LEAST_CHANCE, Choices, Sampler, SeenCounts
from model_runtime.engine.stops import StopRule
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ENDLESS, ONE_LINE, ids_of
from tests.unit.counted import counts_of

HISTORY = ids_of([7, 8, 9, 7, 8])
seeds, sharpness = st.integers(0, 2**16), st.sampled_from([0.5, 3.0, 12.0, 60.0])
stubs = st.sampled_from([b"", b"r", b"re", b"self", b"    ", b"zq"])
caches = st.sampled_from([None, CACHE])


def logits_of(tokenizer: Tokenizer, seed: int, sharp: float) -> torch.Tensor:
    return sharp * torch.randn(tokenizer.vocab, generator=torch.Generator().manual_seed(seed))


def distribution(sampler: Sampler, logits: torch.Tensor, stub: bytes) -> dict[int, float]:
    """The chances of all tokens that fit."""
    chances = torch.softmax(logits.double(), 0).float().numpy()
    if sampler.ngrams is not None:
        chances = sampler.ngrams.mix(torch.softmax(logits, 0).numpy(), HISTORY)
    fitting = [i for i in range(len(chances)) if not stub or sampler.spells(i, stub)]
    total = float(np.sum(chances[fitting], dtype=np.float64))
    return {i: float(chances[i]) / total for i in fitting} if total > 1e-30 else {}


@settings(max_examples=150)
@given(seed=seeds, sharp=sharpness, stub=stubs, cache=caches)
def test_the_probability_is_the_share_of_what_fits(
    tokenizer: Tokenizer, seed: int, sharp: float, stub: bytes, cache: Ngrams | None
) -> None:
    """But for unlikely tokens, which are not counted: together they may make it a little too high."""
    sampler, logits = Sampler(tokenizer, cache), logits_of(tokenizer, seed, sharp)
    choice = sampler.pick(logits, HISTORY, stub)
    shares = distribution(sampler, logits, stub)
    if not shares:
        return
    assert shares[choice.token] == pytest.approx(max(shares.values()))
    assert choice.whole == (not stub or distribution(sampler, logits, b"")[choice.token] >= LEAST_CHANCE)
    found = sampler.probability(choice, stub)
    assert 0 <= found <= 1
    unlikely = sum(share for token, share in shares.items() if token not in choice.likely.tolist())
    assert shares[choice.token] * (1 - 1e-3) <= found <= shares[choice.token] / max(1 - unlikely, 1e-9) * (1 + 1e-3)


@settings(max_examples=150)
@given(seed=seeds, sharp=sharpness, stub=stubs)
def test_the_compiled_part_and_numpy_choose_the_same(
    tokenizer: Tokenizer, seed: int, sharp: float, stub: bytes
) -> None:
    logits, counts = logits_of(tokenizer, seed, sharp), counts_of({"a": [8, 7, 8, 5], "b": [9, 7, 8, 6]}).without(())
    cache = Ngrams(CACHE.shares, CACHE.half_life, (0.0, 0.0, 0.5))
    compiled = Sampler(tokenizer, cache).pick(logits, HISTORY, stub, counts=counts)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(library, "library", lambda: "switched off")
        plain = Sampler(tokenizer, replace(cache)).pick(logits, HISTORY, stub, counts=counts)
    assert (compiled.token, compiled.whole) == (plain.token, plain.whole)
    assert compiled.chance == pytest.approx(plain.chance, rel=1e-5)
    assert compiled.likely.tolist() == plain.likely.tolist()
    assert compiled.chances == pytest.approx(plain.chances, rel=1e-5)
    assert compiled.shares == pytest.approx(plain.shares, rel=1e-5, abs=1e-6)
    assert (compiled.likely.dtype, compiled.chances.dtype) == (plain.likely.dtype, plain.chances.dtype)


@settings(max_examples=150)
@given(seed=seeds, sharp=sharpness, shorter=stubs, size=st.integers(1, 4), cache=caches)
def test_a_choice_that_is_recalled_is_as_probable_as_one_made_anew(
    tokenizer: Tokenizer, seed: int, sharp: float, shorter: bytes, size: int, cache: Ngrams | None
) -> None:
    sampler, logits = Sampler(tokenizer, cache), logits_of(tokenizer, seed, sharp)
    choices, made = Choices(ids_of([1]), HISTORY, SeenCounts(cache)), sampler.pick(logits, HISTORY, shorter)
    choices.add(1, made, shorter)
    longer = shorter + tokenizer.token_bytes[made.token][len(shorter) :][:size]
    recalled = choices.at(1, longer, sampler.spells)
    if recalled is not None:
        anew = sampler.pick(logits, HISTORY, longer)
        assert (recalled.token, sampler.probability(recalled, longer)) == (
            anew.token,
            sampler.probability(anew, longer),
        )
    else:
        assert made.chance < LEAST_CHANCE or not made.whole


def said(tokenizer: Tokenizer, rule: StopRule, *pieces: bytes, stub: bytes = b"") -> Output:
    """Tokens that each were as likely as another one that fits."""
    sampler, other = Sampler(tokenizer, None, {0}), tokenizer.token_bytes.index(b"x")
    output = Output(sampler, stub, rule)
    for piece in pieces:
        token = tokenizer.token_bytes.index(piece) if piece else 0
        chances = np.array([0.25, 0.25], dtype=np.float32)
        choice = sampler.pick(torch.zeros(tokenizer.vocab), HISTORY, b"")
        output.append(choice._replace(token=token, chance=0.25, likely=ids_of([token, other]), chances=chances))
    return output


@pytest.mark.parametrize(
    ("pieces", "stub", "text", "confidence"),
    [
        ([b"a", b"b"], b"", "ab", 0.25),
        ([b"a", b"\n", b"b"], b"", "a\nb", 0.25),
        ([b"\n", b" ", b"a", b"b"], b"", "\n ab", 0.0625),
        ([b"\n", b" ", b"a", b"\n", b"b"], b"", "\n a\nb", 0.0625),
        ([b"a", b""], b"", "a", 0.25),
        ([b"a", b"b"], b"a", "b", 0.5),
    ],
)
def test_confidence_is_of_the_first_line_that_is_not_blank_with_its_end(
    tokenizer: Tokenizer, pieces: list[bytes], stub: bytes, text: str, confidence: float
) -> None:
    output = said(tokenizer, ENDLESS, *pieces, stub=stub)
    assert output.confidence == pytest.approx(confidence)
    assert output.spelled.decode() == text


def test_a_line_end_that_ends_a_suggestion_counts(tokenizer: Tokenizer) -> None:
    output = said(tokenizer, ONE_LINE, b"a", b"\n")
    assert (output.complete, output.text, output.confidence) == (True, "a", pytest.approx(0.25))
