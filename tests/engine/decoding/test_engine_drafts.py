"""Drafts: they change how many passes an answer takes, never what it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.decode import STALE_AFTER
from model_runtime.engine.drafts import LONGEST_DRAFT, LONGEST_MATCH, NO_DRAFT, Drafts, PassCosts, lookup
from model_runtime.prompt.prompt import Prompt, PromptPart
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ONE_LINE, Watched, decoder_of, ids_of
from tests.engine.prompts import A, B, Eager, Shy, assert_same_tokens, canonical, generate, paced, prompt_of, scripted
from tests.models import CODE, VOCABULARY

LINES = CODE.splitlines(keepends=True)
tokens = st.integers(5, VOCABULARY - 1)


@st.composite
def typed_texts(draw: st.DrawFn) -> str:
    """A line of the file up to somewhere, and perhaps what stands before it again."""
    line = draw(st.sampled_from(LINES))
    return draw(st.sampled_from(["", line])) + line[: draw(st.integers(0, len(line) - 1))]


@settings(max_examples=80)
@given(
    typed=typed_texts(),
    guesses=st.lists(st.one_of(st.none(), tokens, tokens), max_size=14),
    dropped=st.integers(0, 3),
    pace=st.sampled_from([Eager, PassCosts]),
    cache=st.booleans(),
    warm=st.booleans(),
    limit=st.integers(1, 14),
)
@example("def ", [None] * 14, 0, Eager, False, False, 14)
@example("    return ", [None] * 5 + [9] + [None] * 8, 1, Eager, True, False, 14)
def test_whatever_is_expected_and_drafted_the_same_is_said(
    decoder: AnyDecoder,
    tokenizer: Tokenizer,
    typed: str,
    guesses: list[int | None],
    dropped: int,
    pace: type[PassCosts],
    cache: bool,
    warm: bool,
    limit: int,
) -> None:
    """Expected is what will be said, where a guess is None, with other tokens in it, and less its beginning."""
    prompt, mixed = prompt_of(tokenizer, typed), CACHE if cache else None
    cold = paced(Watched(decoder, tokenizer, cache=mixed), Shy())
    generate(cold, prompt, limit=limit)
    said = [*cold.log.tokens, *([7] * len(guesses))]
    expected = [truth if guess is None else guess for guess, truth in zip(guesses, said, strict=False)]

    engine = paced(Watched(decoder, tokenizer, cache=mixed), pace())
    if warm:
        generate(engine, prompt_of(tokenizer, typed + "x = "))
    made = generate(engine, prompt, limit=limit, expected=ids_of(expected[dropped:]))
    assert_same_tokens(engine.log, cold.log)
    assert made.stats.accepted <= made.stats.drafted
    assert engine.log.arena is not None
    assert engine.log.arena.length <= len(prompt.ids) + len(made.choices) + LONGEST_DRAFT


def test_nothing_is_drafted_where_it_does_not_pay(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    engine, prompt = paced(Watched(decoder, tokenizer), Shy()), prompt_of(tokenizer, "def ")
    made = generate(engine, prompt, expected=ids_of([9, 9, 9]))
    assert (made.stats.drafted, made.stats.accepted) == (0, 0)
    assert max(engine.log.passes[-5:]) == 1


def test_a_text_that_is_expected_is_said_in_one_pass(folder: Path, tokenizer: Tokenizer) -> None:
    prompt, script = prompt_of(tokenizer, "x ="), canonical(tokenizer, "x =", " record.value for record in records")
    assert len(script) <= LONGEST_DRAFT
    engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
    made = generate(engine, prompt, ONE_LINE, limit=60, expected=ids_of(script))
    assert made.text == " record.value for record in records"
    assert (made.stats.recomputed, made.stats.passes) == (len(prompt.ids), 0)
    assert made.stats.drafted == made.stats.accepted == len(script)
    assert sum(engine.log.passes) == len(prompt.ids) + len(script)


@pytest.mark.parametrize("wrong", [0, 2, 5])
def test_a_draft_is_accepted_up_to_the_first_token_that_is_not_said(
    folder: Path, tokenizer: Tokenizer, wrong: int
) -> None:
    prompt, script = prompt_of(tokenizer, "x ="), canonical(tokenizer, "x =", " record.value for record in records")
    expected = [*script[:wrong], 7, *script[wrong + 1 :]]
    engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
    made = generate(engine, prompt, ONE_LINE, limit=len(script), expected=ids_of(expected))
    assert made.text == " record.value for record in records"
    assert made.stats.passes == 1, "what is expected after the wrong token comes true in a second pass"
    assert made.stats.accepted == len(script) - 2, "all but that one and the last, which the limit leaves out"
    assert engine.log.arena is not None
    assert engine.log.arena.ids[len(prompt.ids) :].tolist() == script[:-1]


def test_a_line_that_stood_there_before_is_drafted_from_it(folder: Path, tokenizer: Tokenizer) -> None:
    """Prompt lookup: the head has the line, the model says it again."""
    line = "        for number, line in enumerate(file):"
    typed, suggestion = line[:25], line[25:]
    prompt, script = prompt_of(tokenizer, typed), canonical(tokenizer, typed, suggestion)
    engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
    made = generate(engine, prompt, ONE_LINE, limit=60)
    assert made.text == suggestion
    assert made.stats.accepted >= len(script) // 2
    assert made.stats.passes < len(script) // 2


def test_an_unfinished_word_is_not_drafted_unless_something_is_expected(folder: Path, tokenizer: Tokenizer) -> None:
    typed, suggestion = "x = record.value, reco", "rd.value"
    prompt, script = prompt_of(tokenizer, typed), canonical(tokenizer, typed, suggestion)
    assert prompt.stub and len(lookup(prompt.history)[0])
    for expected, drafted in ((NO_DRAFT, 0), (ids_of(script), 1)):
        engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
        made = generate(engine, prompt, limit=2, expected=expected)
        assert (made.text, made.stats.drafted, made.stats.accepted) == ("rd.value", drafted, drafted)


class Noting(Drafts):
    """Drafts that keep what they were told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, bool]] = []

    def record(self, kind: int, came_true: bool) -> None:
        self.told.append((kind, came_true))
        super().record(kind, came_true)


def noting(engine: Watched) -> tuple[Watched, Noting]:
    """The engine, and what it learns."""
    drafts = Noting()
    engine.context.drafts = drafts
    return engine, drafts


def test_of_a_draft_is_learnt_what_came_true_and_the_first_token_that_did_not(
    folder: Path, tokenizer: Tokenizer
) -> None:
    prompt, script = prompt_of(tokenizer, "x ="), canonical(tokenizer, "x =", " record.value for record in records")
    engine, drafts = noting(paced(scripted(folder, prompt, script, tokenizer), Eager()))
    generate(engine, prompt, ONE_LINE, limit=len(script), expected=ids_of([*script[:3], 7, 7, 7, 7]))
    expected = LONGEST_MATCH + 1
    assert drafts.told[:4] == [(expected, True)] * 3 + [(expected, False)]


def test_a_draft_that_was_rejected_is_learnt_from_once_though_known_tokens_follow(
    folder: Path, tokenizer: Tokenizer
) -> None:
    typed, suggestion = "    return self.updat", "e(value)[0].x"
    prompt, script = prompt_of(tokenizer, typed), canonical(tokenizer, typed, suggestion)
    engine, drafts = noting(paced(scripted(folder, prompt, script, tokenizer), Eager()))
    generate(engine, prompt, ONE_LINE, limit=30)
    drafts.told.clear()
    shorter = prompt_of(tokenizer, typed[:-1])
    made = generate(engine, shorter, ONE_LINE, limit=30, expected=ids_of([*script[:2], *[7] * 13]))
    assert made.stats.known > 1
    assert [came_true for _, came_true in drafts.told] == [True, False]


def fitting(engine: Watched, prompt: Prompt) -> int:
    """A token that spells the prompt's stub, unlikely to be the one that is said."""
    return int(engine.tokenizer.vocabulary.fitting(prompt.stub)[-1])


def test_nothing_is_drafted_that_cannot_spell_the_stub(folder: Path, tokenizer: Tokenizer) -> None:
    typed = "    return self.updat"
    prompt, script = prompt_of(tokenizer, typed), canonical(tokenizer, typed, "e(value)")
    engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
    assert generate(engine, prompt, ONE_LINE, limit=1, expected=ids_of([7] * 15)).stats.drafted == 0


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_more_is_drafted_than_the_limit_leaves(folder: Path, tokenizer: Tokenizer, limit: int) -> None:
    prompt, script = prompt_of(tokenizer, "x ="), canonical(tokenizer, "x =", " record.value for record in records")
    engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
    made = generate(engine, prompt, ONE_LINE, limit=limit, expected=ids_of(script))
    assert (len(made.choices), made.stats.drafted, made.stats.passes) == (limit, limit - 1, 0)


@pytest.mark.parametrize("spare", [0, 1, 5])
def test_no_more_is_drafted_than_the_arena_has_room_for(
    decoder: AnyDecoder, tokenizer: Tokenizer, spare: int
) -> None:
    prompt = prompt_of(tokenizer, "def ")
    engine = paced(Watched(decoder, tokenizer, capacity=len(prompt.ids) + spare), Eager())
    made = generate(engine, prompt, limit=30, expected=ids_of([fitting(engine, prompt), *[9] * 29]))
    assert made.stats.drafted >= spare
    assert len(made.choices) == spare + 1


def test_a_draft_that_was_computed_and_not_said_is_no_part_of_the_arena(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = paced(Watched(decoder, tokenizer), Eager()), prompt_of(tokenizer, "def ")
    generate(engine, prompt, limit=8, expected=ids_of([9] * 8))
    assert engine.log.arena is not None
    said = [*prompt.ids.tolist(), *engine.log.tokens]
    held = engine.log.arena.ids.tolist()
    assert held[: len(said)] == said[: len(held)]


def test_what_was_learnt_from_drafts_changes_no_answer_of_another_document(
    decoder: AnyDecoder, tokenizer: Tokenizer
) -> None:
    engine, cold, prompt = Watched(decoder, tokenizer), Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    for line in LINES[8:20]:
        generate(engine, prompt_of(tokenizer, line[:-3]), owner=A, expected=ids_of([9, 8, 7]))
    generate(engine, prompt, owner=B)
    generate(cold, prompt)
    assert_same_tokens(engine.log, cold.log)


def plain(ids: Sequence[int]) -> Prompt:
    """A prompt of these tokens, without a history to draft from."""
    return Prompt((PromptPart("typed", ids_of(ids)),), b"", NO_DRAFT)


@pytest.mark.parametrize(("changed", "drafted"), [(8, 1), (9, 0)])
def test_what_stood_behind_up_to_eight_changed_tokens_is_expected_again(
    folder: Path, tokenizer: Tokenizer, changed: int, drafted: int
) -> None:
    before = range(20, 60)
    engine = paced(scripted(folder, plain(before), [], tokenizer), Eager())
    generate(engine, plain(before), limit=12)
    made = generate(engine, plain([*before[:30], *range(100, 100 + changed)]), limit=2)
    assert STALE_AFTER == 8
    assert made.stats.drafted == drafted


def test_an_arena_keeps_the_logits_of_one_row_of_a_pass(folder: Path, tokenizer: Tokenizer) -> None:
    engine = paced(Watched(decoder_of(folder), tokenizer), Eager())
    assert generate(engine, plain(range(20, 60)), limit=9, expected=ids_of([9] * 8)).stats.drafted >= 8
    assert engine.log.arena is not None and isinstance(engine.log.arena.logits, torch.Tensor)
    assert engine.log.arena.logits.untyped_storage().nbytes() == 4 * VOCABULARY
