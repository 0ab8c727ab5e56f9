"""The engine's compiled part: it says what numpy says, and which of them chooses is logged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.drafts import lookup
from model_runtime.engine.native import library
from model_runtime.engine.native.mixer import LEAST_WEIGHTS
from model_runtime.engine.ngrams import Mixture, Ngrams
from model_runtime.engine.sampler import LEAST_CHANCE
from model_runtime.ids import Ids
from tests.compiled import require
from tests.unit.counted import counts_of

VOCAB = 5
unhurried = settings(max_examples=80)
tokens = st.one_of(st.integers(0, VOCAB - 1), st.integers(0, 1), st.integers(-1, VOCAB - 1))
histories = st.one_of(
    st.lists(tokens, max_size=40),
    st.tuples(st.lists(tokens, max_size=70), st.integers(1, 8)).map(lambda pair: pair[0] * pair[1]),
)
caches = st.builds(
    Ngrams,
    st.lists(st.floats(0, 1), min_size=1, max_size=64).map(tuple),
    st.floats(1, 1e6),
    st.lists(st.floats(0, 1), max_size=16).map(tuple),
)
ordinary = st.floats(-60, 60, width=32)
logits_of_any = st.one_of(
    st.lists(ordinary, min_size=1, max_size=80),
    st.lists(st.one_of(ordinary, st.sampled_from([-np.inf, -1e30, 90.0, -90.0])), min_size=1, max_size=40),
    st.tuples(st.lists(ordinary, min_size=1, max_size=9), st.integers(1, 99)).map(lambda pair: pair[0] * pair[1]),
)


def ids(history: list[int]) -> Ids:
    return np.array(history, dtype=np.int32)


def require_engine() -> None:
    """Skip or fail a test of the compiled part."""
    found = library.library()
    require(found if isinstance(found, str) else None, set())


def mixed_both_ways(
    cache: Ngrams, probabilities: np.ndarray, history: Ids, counts: CountsView
) -> tuple[Mixture, Mixture]:
    compiled = cache.mixture(probabilities, history, counts)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(library, "library", lambda: "switched off")
        other = Ngrams(cache.shares, cache.half_life, cache.memory_shares)
        return compiled, other.mixture(probabilities, history, counts)


@unhurried
@given(caches, st.integers(0, 2**16), histories, st.lists(histories, max_size=3))
@example(Ngrams((0.5, 0.2), 3.0, (0.0, 0.0, 0.5)), 1, [0, 1, 2] * 30, [[0, 1, 2, 3], [2, 0, 1, 2, 4]])
@example(Ngrams((0.5,), 1.0), 1, [3, *[0, 1] * 100, 3], [])
@example(Ngrams((0.5, 0.2), 9e3), 1, [0, 1, 2] * (LEAST_WEIGHTS // 2), [])  # longer than what is weighed at first
def test_a_mixture_has_the_same_bits(cache: Ngrams, seed: int, history: list[int], texts: list[list[int]]) -> None:
    require_engine()
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(VOCAB)).astype(np.float32)
    counts = counts_of({str(n): text for n, text in enumerate(texts)}).without(())
    compiled, plain = mixed_both_ways(cache, probabilities, ids(history), counts)
    assert compiled.chances.tobytes() == plain.chances.tobytes()
    assert (compiled.model, compiled.tokens.tolist()) == (plain.model, plain.tokens.tolist())
    assert compiled.gains.tobytes() == plain.gains.tobytes()


@unhurried
@given(logits_of_any, caches, st.data())
@example([1.0] * 33, Ngrams((0.5,), 9.0), None)
@example([0.0] * 5000, Ngrams((0.0,), 9.0), None)
def test_a_choice_is_that_of_the_exact_distribution(
    numbers: list[float], cache: Ngrams, data: st.DataObject | None
) -> None:
    require_engine()
    assume(max(numbers) > -np.inf)
    vocab, logits = len(numbers), np.array(numbers, dtype=np.float32)
    history = ids(data.draw(st.lists(st.integers(-1, min(vocab, 4) - 1), max_size=30)) if data else [0, 0])
    fitting = ids(data.draw(st.lists(st.integers(0, vocab - 1), min_size=1, unique=True))) if data else None
    exact = np.exp(logits.astype(np.float64) - logits.max())
    exact /= exact.sum()
    mixture = cache.mixture(exact.astype(np.float32), history)
    assert cache.mixer
    for among in (None, fitting):
        picked = cache.mixer.pick(logits.ctypes.data, vocab, history, None, among)
        best = mixture.chances[slice(None) if among is None else among].max()
        assert mixture.chances[picked.token] == pytest.approx(best, rel=1e-5, abs=1e-30)
        assert picked.chance == pytest.approx(best, rel=1e-5, abs=1e-30)
        assert among is None or picked.token in among
        chances = dict(zip(picked.likely.tolist(), picked.chances.tolist(), strict=True))
        model = dict(zip(picked.likely.tolist(), picked.model.tolist(), strict=True))
        assert list(chances) == sorted(chances)
        for token, chance in enumerate(mixture.chances.tolist()):
            if token in chances:
                assert chances[token] == pytest.approx(chance, rel=1e-5)
                assert model[token] == pytest.approx(mixture.model * exact[token], rel=1e-5, abs=1e-30)
            assert (token in chances) == (chance >= LEAST_CHANCE) or chance == pytest.approx(LEAST_CHANCE, rel=1e-5)


def test_of_equally_likely_tokens_the_first_is_chosen() -> None:
    require_engine()
    logits, cache = np.zeros(100, dtype=np.float32), Ngrams((0.0,), 1.0)
    assert cache.mixer
    assert cache.mixer.pick(logits.ctypes.data, 100, ids([]), None, None).token == 0
    assert cache.mixer.pick(logits.ctypes.data, 100, ids([]), None, ids([70, 3])).token == 70
    logits[[90, 40]] = 1.0
    assert cache.mixer.pick(logits.ctypes.data, 100, ids([]), None, None).token == 40


@unhurried
@given(histories)
@example([0, 1, 2] * 60)
@example([1, *[0] * 64, 2, *[0] * 130, 1])
def test_a_draft_is_the_same(history: list[int]) -> None:
    require_engine()
    compiled, length = lookup(ids(history))
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(library, "library", lambda: "switched off")
        plain, same_length = lookup(ids(history))
    assert (compiled.tolist(), length) == (plain.tolist(), same_length)


def test_a_choice_says_nothing_of_the_one_before() -> None:
    """A thread's room is used again, for vocabularies and histories of any size."""
    require_engine()
    cache, small = Ngrams((0.5, 0.2), 3.0), Ngrams((0.1,), 9.0)
    generator = np.random.default_rng(0)
    cases = [
        (each, generator.normal(size=vocab).astype(np.float32), ids(generator.integers(-1, 3, length).tolist()))
        for each, vocab, length in [(cache, 900, 5), (small, 7, 900), (cache, 20, 0), (small, 3000, 3), (cache, 7, 9)]
    ]

    def pick(each: Ngrams, logits: np.ndarray, history: Ids) -> list[bytes]:
        assert each.mixer
        picked = each.mixer.pick(logits.ctypes.data, len(logits), history, None, None)
        return [np.asarray(part).tobytes() for part in picked]

    first = [pick(*case) for case in cases]
    assert [pick(*case) for case in reversed(cases)] == first[::-1]


def test_the_way_that_chooses_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    require_engine()
    with caplog.at_level("INFO", library.__name__):
        library.library.__wrapped__()
    assert caplog.messages == ["Tokens are chosen by compiled code"]


def test_a_part_that_was_not_compiled_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "PATH", tmp_path / "_engine.so")
    reason = library.library.__wrapped__()
    assert isinstance(reason, str)
    assert "was not built: install efim-ls again" in reason
    assert caplog.messages == [f"Tokens are chosen in numpy, which is slower: {reason}"]
