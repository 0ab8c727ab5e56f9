"""A suggestion that was made is known: typing into it, taking that back and accepting it need no pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_runtime.cancel import NEVER
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.engine import PrepareJob
from model_runtime.engine.ngrams import Ngrams
from model_runtime.prompt.prompt import Surroundings, build
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ONE_LINE, Watched, ids_of
from tests.engine.prompts import A, Eager, Shy, canonical, generate, paced, prompt_of, scripted, spelled
from tests.models import CODE

SUGGESTIONS = [
    ("x =", " record.value for record in records"),
    ("x = sel", "f.name.strip()"),
    ("    return self.upd", "ate(value)[0].x"),
    ("def é", "tage(日本, 😀): return None"),
    ("# ", "one word, and another"),
]
each_suggestion = pytest.mark.parametrize(("typed", "suggestion"), SUGGESTIONS)


def suggesting(folder: Path, tokenizer: Tokenizer, typed: str, suggestion: str) -> Watched:
    """An engine that has just suggested the rest of a line, in the tokens that it would have in a file."""
    prompt = prompt_of(tokenizer, typed)
    engine = scripted(folder, prompt, canonical(tokenizer, typed, suggestion), tokenizer)
    made = generate(engine, prompt, ONE_LINE, limit=60)
    assert (made.text, made.complete) == (suggestion, True)
    return engine


def assert_known(engine: Watched, tokenizer: Tokenizer, typed: str, rest: str) -> None:
    """The rest of the line is said without a pass, whole."""
    prompt = prompt_of(tokenizer, typed)
    made = generate(engine, prompt, ONE_LINE, limit=60)
    assert (made.text, made.complete) == (rest, True)
    assert engine.log.passes == []
    assert (made.reused, made.stats.recomputed, made.stats.passes) == (len(prompt.ids), 0, 0)


@each_suggestion
def test_typing_through_a_suggestion_needs_no_pass(
    folder: Path, tokenizer: Tokenizer, typed: str, suggestion: str
) -> None:
    engine = suggesting(folder, tokenizer, typed, suggestion)
    for n in range(len(suggestion) + 1):
        assert_known(engine, tokenizer, typed + suggestion[:n], suggestion[n:])
        assert engine.log.gaps == [], "nothing is chosen anew"


@each_suggestion
def test_accepting_a_suggestion_needs_no_pass(
    folder: Path, tokenizer: Tokenizer, typed: str, suggestion: str
) -> None:
    engine = suggesting(folder, tokenizer, typed, suggestion)
    assert_known(engine, tokenizer, typed + suggestion, "")


@each_suggestion
def test_going_on_after_an_accepted_suggestion_computes_what_was_typed_since(
    folder: Path, tokenizer: Tokenizer, typed: str, suggestion: str
) -> None:
    engine = suggesting(folder, tokenizer, typed, suggestion)
    for n in (0, 3, len(suggestion), 1):
        assert_known(engine, tokenizer, typed + suggestion[:n], suggestion[n:])
    computed = len(prompt_of(tokenizer, typed).ids) + len(canonical(tokenizer, typed, suggestion)) - len("\n")
    prompt = prompt_of(tokenizer, typed + suggestion + "\n    y")
    made = generate(engine, prompt, ONE_LINE)
    assert made.stats.recomputed == len(prompt.ids) - computed > 0


@each_suggestion
def test_backspace_into_a_suggestion_needs_no_pass(
    folder: Path, tokenizer: Tokenizer, typed: str, suggestion: str
) -> None:
    engine = suggesting(folder, tokenizer, typed, suggestion)
    assert_known(engine, tokenizer, typed + suggestion, "")
    for n in range(len(suggestion), -1, -1):
        assert_known(engine, tokenizer, typed + suggestion[:n], suggestion[n:])


def test_backspace_in_the_word_that_was_asked_for_needs_no_pass(folder: Path, tokenizer: Tokenizer) -> None:
    engine = suggesting(folder, tokenizer, "x = reco", "rd.value")
    for n in range(len("x = reco"), len("x = "), -1):
        assert_known(engine, tokenizer, "x = reco"[:n], "x = record.value"[n:])


@pytest.mark.parametrize("pace", [Eager, Shy])
def test_backspace_needs_a_pass_for_all_but_the_first_token_of_a_word(
    folder: Path, tokenizer: Tokenizer, pace: type[Eager | Shy]
) -> None:
    typed, suggestion = "    return self.updat", "e(value)[0].x"
    engine, before = paced(suggesting(folder, tokenizer, typed, suggestion), pace()), prompt_of(tokenizer, typed)
    for n in range(1, len("updat")):
        shorter = prompt_of(tokenizer, typed[:-n])
        assert shorter.ids.tolist() == before.ids.tolist()
        made = generate(engine, shorter, ONE_LINE, limit=60)
        assert (made.text, made.complete) == (typed[-n:] + suggestion, True)
        spelling = spelling_tokens(tokenizer, engine.log.tokens, before.stub)
        assert (made.stats.recomputed, made.stats.known) == (0, len(made.choices) - spelling)
        assert made.stats.passes <= spelling - 1
        before = shorter


def spelling_tokens(tokenizer: Tokenizer, tokens: list[int], stub: bytes) -> int:
    """How many of the tokens an unfinished word takes."""
    pieces = [tokenizer.token_bytes[token] for token in tokens]
    return next(n for n in range(len(tokens) + 1) if len(b"".join(pieces[:n])) >= len(stub))


def test_going_back_and_forth_in_a_suggestion_needs_no_pass(folder: Path, tokenizer: Tokenizer) -> None:
    typed, suggestion = SUGGESTIONS[0]
    engine = suggesting(folder, tokenizer, typed, suggestion)
    for n in (20, 3, 3, len(suggestion), 0, 11, 10, 12):
        assert_known(engine, tokenizer, typed + suggestion[:n], suggestion[n:])


def test_a_suggestion_stays_known_while_its_arena_works_on_something_else(folder: Path, tokenizer: Tokenizer) -> None:
    typed, suggestion = SUGGESTIONS[0]
    engine = suggesting(folder, tokenizer, typed, suggestion)
    assert engine.prepare(PrepareJob(A, prompt_of(tokenizer, "y = 1\n", CODE[:90], "")), NEVER)
    assert_known(engine, tokenizer, typed, suggestion)


@pytest.mark.parametrize("cache", [None, CACHE])
def test_typing_through_what_a_model_says_needs_no_pass_where_its_tokens_are_those_of_the_text(
    decoder: AnyDecoder, tokenizer: Tokenizer, cache: Ngrams | None
) -> None:
    inside, beyond = 0, 0
    for line in CODE.splitlines()[8:40]:
        typed, limit = line[: len(line) * 2 // 3], 8
        prompt = prompt_of(tokenizer, typed)
        engine = paced(Watched(decoder, tokenizer, cache=cache), Eager())
        generate(engine, prompt, ONE_LINE, limit)
        said = engine.log.tokens
        unlikely = sum(not choice.whole for choice in engine.log.made.choices) if engine.log.made else 0
        text = spelled(engine.log, tokenizer)[len(prompt.stub) :].decode("utf-8", "ignore").split("\n")[0]
        for n in range(len(text) + 1):
            now = prompt_of(tokenizer, typed + text[:n])
            count = len(now.ids) - len(prompt.ids)
            stub = b"".join(tokenizer.token_bytes[token] for token in said[count:])[: len(now.stub)]
            if now.ids.tolist() != [*prompt.ids.tolist(), *said[:count]] or now.stub != stub or count >= len(said):
                continue
            generate(engine, now, ONE_LINE, len(said) - count)
            assert engine.log.tokens == said[count:]
            if unlikely:  # how likely they are now is not known
                continue
            assert engine.log.passes == []
            inside, beyond = inside + (n > 0), beyond + (count > 0)
    assert inside > 20
    assert beyond > 5


def test_what_was_said_after_another_prompt_is_not_known(folder: Path, tokenizer: Tokenizer) -> None:
    typed, suggestion = SUGGESTIONS[0]
    engine = suggesting(folder, tokenizer, typed, suggestion)
    generate(engine, prompt_of(tokenizer, typed, "# another head\n"), ONE_LINE)
    assert engine.log.made is not None
    assert engine.log.made.stats.known == 0


def test_after_a_word_that_was_typed_otherwise_nothing_is_known(folder: Path, tokenizer: Tokenizer) -> None:
    typed, suggestion = SUGGESTIONS[0]
    engine = suggesting(folder, tokenizer, typed, suggestion)
    made = generate(engine, prompt_of(tokenizer, typed + " record_"), ONE_LINE)
    assert made.stats.known == 0


# A keystroke that was not suggested


@pytest.mark.parametrize("keystroke", [" a", " rex", " record_", " re.", " value.v"])
def test_after_a_keystroke_that_diverges_the_old_suggestion_is_a_draft(
    folder: Path, tokenizer: Tokenizer, keystroke: str
) -> None:
    """The model, which goes by the place alone, says the rest of it after all."""
    typed, suggestion = SUGGESTIONS[0]
    engine = paced(suggesting(folder, tokenizer, typed, suggestion), Eager())
    made = generate(engine, prompt_of(tokenizer, typed + keystroke), ONE_LINE)
    said = ids_of(engine.log.tokens)
    assert made.stats.accepted > 0
    assert made.stats.passes < len(said) - 1


@pytest.mark.parametrize(("keystrokes", "left"), [(" Q.", ".j-z+k*v/w"), (" Q.J-", "-z+k*v/w")])
def test_what_the_old_suggestion_said_after_what_diverged_is_verified_in_the_first_pass(
    folder: Path, tokenizer: Tokenizer, keystrokes: str, left: str
) -> None:
    """Nothing in it stood there before: it is known from the old suggestion alone."""
    typed, suggestion = "x =", " q.j-z+k*v/w"
    prompt, script = prompt_of(tokenizer, typed, "", ""), canonical(tokenizer, typed, suggestion)
    engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
    generate(engine, prompt, ONE_LINE, limit=60)
    now = prompt_of(tokenizer, typed + keystrokes, "", "")
    made = generate(engine, now, ONE_LINE, limit=60)
    assert now.stub.decode() + made.text == left
    assert (made.stats.passes, made.stats.accepted) == (0, len(made.choices) - 1)


@pytest.mark.parametrize("expected", [0, 1])
def test_what_was_said_is_verified_in_one_pass_where_the_history_is_another(
    folder: Path, tokenizer: Tokenizer, expected: int
) -> None:
    """It is said again from the arena, whether it is expected or not."""
    typed, suggestion = "x =", " q.j-z+k*v/w"
    template, script = find_template(tokenizer), canonical(tokenizer, typed, suggestion)
    prompt, other = (build(tokenizer, template, "", "", typed, Surroundings(before=each)) for each in ("", "# a\n"))
    engine = paced(scripted(folder, prompt, script, tokenizer), Eager())
    generate(engine, prompt, ONE_LINE, limit=60)
    made = generate(engine, other, ONE_LINE, limit=60, expected=ids_of(script[:expected]))
    assert (made.text, made.stats.known, made.stats.recomputed) == (suggestion, 0, 0)
    assert made.stats.passes == 1
