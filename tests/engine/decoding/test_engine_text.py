"""What the engine says: where a text ends, and that its first tokens spell what was typed already."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.engine.stops import stop_rule
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ENDLESS, ONE_LINE, Watched, quick_decoder_of
from tests.engine.prompts import HEAD, TAIL, bytewise, generate, prompt_of, scripted, spelled
from tests.models import Tiny, make

# Where it ends


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_pad|>"])
def test_special_tokens_end_the_text_and_are_not_part_of_it(folder: Path, tokenizer: Tokenizer, special: str) -> None:
    prompt = prompt_of(tokenizer, "x = ")
    script = [*bytewise(tokenizer, " ab"), tokenizer.special[special], *bytewise(tokenizer, "cd")]
    made = generate(scripted(folder, prompt, script, tokenizer), prompt)
    assert (made.text, len(made.choices), made.complete) == ("ab", 4, True)


def test_a_text_that_ends_at_once_is_empty(folder: Path, tokenizer: Tokenizer) -> None:
    prompt = prompt_of(tokenizer, "x = 1\n")
    assert prompt.stub == b"\n" or not prompt.stub
    script = [*bytewise(tokenizer, prompt.stub.decode()), tokenizer.special["<|endoftext|>"]]
    made = generate(scripted(folder, prompt, script, tokenizer), prompt)
    assert (made.text, made.complete) == ("", True)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_single_line_ends_before_any_line_end(folder: Path, tokenizer: Tokenizer, ending: str) -> None:
    prompt = prompt_of(tokenizer, "x = 1")
    script = bytewise(tokenizer, f"1 + 2{ending}y = 3")
    engine = scripted(folder, prompt, script, tokenizer)
    made = generate(engine, prompt, ONE_LINE)
    assert (made.text, made.complete) == (" + 2", True)
    assert len(engine.log.tokens) == len("1 + 2") + 1


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_several_lines_end_where_their_block_does_and_are_parted_by_line_feeds(
    folder: Path, tokenizer: Tokenizer, ending: str
) -> None:
    prompt = prompt_of(tokenizer, "def f(x):")
    script = bytewise(tokenizer, ending.join(["):", "    y = x", "", "    return y", "z = 1", "a"]))
    rule = stop_rule("def f(x):", rest="", explicit=False, max_lines=12)
    made = generate(scripted(folder, prompt, script, tokenizer), prompt, rule, limit=60)
    assert (made.text, made.complete) == ("\n    y = x\n\n    return y", True)


@settings(max_examples=80)
@given(
    lines=st.lists(st.sampled_from(["", "", "  ", "    x = 1", "    f(", "    )", "y", ")", "\tz"]), max_size=8),
    before=st.sampled_from(["", "    ", "def f():", "    call(", "    a,"]),
)
@example(lines=["", "    x = 1", "", "    x = 1", "y"], before="def f():")
def test_a_text_ends_where_it_would_end_if_it_were_all_there(lines: list[str], before: str) -> None:
    rule, text = stop_rule(before, rest="", explicit=False, max_lines=6), "\n".join(lines)
    early = next((cut for end in range(len(text)) if (cut := rule.cut(text[:end])) is not None), None)
    assert early is None or early == rule.cut(text)


def test_characters_of_several_tokens_are_put_together(folder: Path, tokenizer: Tokenizer) -> None:
    prompt = prompt_of(tokenizer, "x = 1")
    script = bytewise(tokenizer, "1é日😀\n")
    made = generate(scripted(folder, prompt, script, tokenizer), prompt, ONE_LINE)
    assert made.text == "é日😀"


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_a_character_that_the_limit_cuts_is_left_out(folder: Path, tokenizer: Tokenizer, limit: int) -> None:
    prompt = prompt_of(tokenizer, "x = 1")
    made = generate(scripted(folder, prompt, bytewise(tokenizer, "1😀"), tokenizer), prompt, ONE_LINE, limit=limit)
    assert made.text == ""


# What it spells

WORDS = (
    "self",
    "x",
    "récord",
    "日本",
    "😀",
    "1",
    "42",
    "'",
    '"',
    "(",
    ").",
    " ",
    "    ",
    "\t",
    "_",
    "é",
    "\n",
    "\r\n",
)
typed_texts = st.one_of(st.lists(st.sampled_from(WORDS), max_size=8).map("".join), st.text(max_size=60))


def is_text(text: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


@settings(max_examples=40)
@given(typed=typed_texts.filter(is_text), cache=st.booleans())
@example("x" * 48, False)
@example("é" * 30, True)
@example("日本語の変数", False)
@example("def f():\r", False)
@example("e\u0301", False)
def test_what_is_made_begins_with_the_unfinished_word_and_the_answer_never_repeats_it(
    decoder: AnyDecoder, tokenizer: Tokenizer, typed: str, cache: bool
) -> None:
    engine = Watched(decoder, tokenizer, cache=CACHE if cache else None)
    prompt = prompt_of(tokenizer, typed, HEAD[:200], "")
    made = generate(engine, prompt, limit=60)
    whole = spelled(engine.log, tokenizer)
    assert whole.startswith(prompt.stub) or prompt.stub.startswith(whole)
    text = whole[len(prompt.stub) :].decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")
    whole_lines = text.rpartition("\n")[0] if "\n" in text and not made.complete else text
    assert made.text == whole_lines[: ENDLESS.cut(whole_lines)]


@settings(max_examples=40)
@given(typed=typed_texts.filter(is_text))
def test_prompt_and_unfinished_word_are_the_document(tokenizer: Tokenizer, typed: str) -> None:
    prompt = prompt_of(tokenizer, typed)
    whole = tokenizer.decode(prompt.ids) + prompt.stub.decode()
    assert whole == f"<|fim_prefix|>{HEAD}<|fim_suffix|>{TAIL}<|fim_middle|>{typed}"
    assert len(prompt.ids) == 3 + prompt.size("head") + prompt.size("tail") + prompt.size("typed")


def test_half_a_surrogate_pair_at_the_cursor_is_no_obstacle(decoder: AnyDecoder, tokenizer: Tokenizer) -> None:
    """Editors that count in UTF-16 can send one; every other part of a prompt takes it for a question mark."""
    prompt = prompt_of(tokenizer, "x = '\ud83d")
    engine = Watched(decoder, tokenizer)
    generate(engine, prompt)
    assert (tokenizer.decode(prompt.ids) + prompt.stub.decode()).endswith("x = '?")


def test_the_word_is_finished_by_the_likeliest_token_that_fits(folder: Path, tokenizer: Tokenizer) -> None:
    prompt = prompt_of(tokenizer, "x = sel")
    assert prompt.stub == b" sel"
    script = [tokenizer.token_bytes.index(b" self")]
    assert generate(scripted(folder, prompt, script, tokenizer), prompt, limit=1).text == "f"


def test_entries_of_the_vocabulary_that_the_tokenizer_lacks_are_never_picked(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """Published models pad their vocabulary: Qwen2.5-Coder has 151,936 rows for 151,665 tokens."""
    decoder = quick_decoder_of(make(tmp_path, Tiny(vocabulary=4000)))
    for typed in ("", "x", "def f(", "return "):
        made = generate(Watched(decoder, tokenizer), prompt_of(tokenizer, typed))
        assert len(made.choices) > 0
