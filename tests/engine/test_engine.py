"""The engine: what it reuses, when it stops, and that its first tokens spell what was typed already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model_runtime.config import read_config
from model_runtime.decoder import Decoder
from model_runtime.engine import CHUNK, Generation, Stopped
from model_runtime.ids import Ids
from model_runtime.local_cache import LocalCache
from model_runtime.prompt import NOTHING, Prompt, Surroundings, build
from model_runtime.stops import StopRule, stop_rule
from model_runtime.template import find_template
from model_runtime.tokenizer import Tokenizer
from tests.engine.doubles import CACHE, ENDLESS, ONE_LINE, Scripted, Watched, decoder_of, never
from tests.models import CODE, Tiny, make

HEAD = CODE[: CODE.index("def write")]
TAIL = CODE[CODE.index("def total") :]


@pytest.fixture(scope="module")
def decoder(folder: Path) -> Decoder:
    return decoder_of(folder)


def prompt_of(tokenizer: Tokenizer, typed: str, head: str = HEAD, tail: str = TAIL) -> Prompt:
    return build(tokenizer, find_template(tokenizer.special), head, tail, typed)


def generate(
    engine: Watched, prompt: Prompt, rule: StopRule = ENDLESS, limit: int = 12, owner: str = "a"
) -> Generation:
    return engine.generate(owner, prompt, rule, limit, never)


def scripted(folder: Path, prompt: Prompt, script: Sequence[int], tokenizer: Tokenizer) -> Watched:
    """An engine whose model says these tokens after the prompt, then a letter for ever."""
    return Watched(Scripted(read_config(folder), len(prompt.ids), script), tokenizer)


def bytewise(tokenizer: Tokenizer, text: str) -> list[int]:
    """One token for each byte of a text."""
    return [tokenizer.token_bytes.index(bytes([byte])) for byte in text.encode()]


def spelled(engine: Watched, tokenizer: Tokenizer) -> bytes:
    return b"".join(tokenizer.token_bytes[pick.token] for pick in engine.log.picks)


def after(questions: int) -> Callable[[], bool]:
    """True from the question of this number on."""
    asked = iter(range(questions))
    return lambda: next(asked, None) is None


# What is computed


def test_reused_and_recomputed_tokens_are_the_prompt(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine = Watched(decoder, tokenizer)
    for typed in ("", "def wri", "def write(path", "", "def read", "x = 1\ny = 2\n", "x = 1\n"):
        prompt = prompt_of(tokenizer, typed)
        made = generate(engine, prompt)
        assert made.reused + made.recomputed == len(prompt.ids)
        assert sum(engine.log.passes) == made.recomputed + made.new_tokens - 1


def test_an_unchanged_prompt_costs_no_forward_pass(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    first = generate(engine, prompt)
    again = generate(engine, prompt, limit=1)
    assert first.recomputed == len(prompt.ids)
    assert (again.reused, again.recomputed, engine.log.passes) == (len(prompt.ids), 0, [])
    assert generate(engine, prompt).text == first.text


def test_an_unchanged_prompt_costs_no_forward_pass_after_a_request_that_stopped_while_decoding(
    decoder: Decoder, tokenizer: Tokenizer
) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    with pytest.raises(Stopped):
        engine.generate("a", prompt, ENDLESS, 12, after(len(prompt.ids) // CHUNK + 3))
    generate(engine, prompt, limit=1)
    assert engine.log.passes == []


def test_a_stopped_prefill_is_not_lost(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    with pytest.raises(Stopped):
        engine.generate("a", prompt, ENDLESS, 12, after(2))
    assert generate(engine, prompt).reused == 2 * CHUNK


def test_typing_words_through_recomputes_at_most_two_tokens_a_keystroke(
    decoder: Decoder, tokenizer: Tokenizer
) -> None:
    words = ["def", " record", ".value", " for", " record", " in", " records", ":", "\n"]
    assert all(len(tokenizer.encode(word)) == 1 for word in words)
    line, engine = "".join(words), Watched(decoder, tokenizer)
    generate(engine, prompt_of(tokenizer, ""))
    costs = [generate(engine, prompt_of(tokenizer, line[:n])).recomputed for n in range(1, len(line) + 1)]
    assert max(costs) <= 2
    assert sum(costs) <= 2 * len(words)


def test_typing_on_inside_a_word_recomputes_nothing(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine, word = Watched(decoder, tokenizer), "incomprehensibility"
    generate(engine, prompt_of(tokenizer, "x = " + word[0]))
    for n in range(2, len(word) + 1):
        assert generate(engine, prompt_of(tokenizer, "x = " + word[:n])).recomputed == 0


def test_taking_back_keystrokes_recomputes_at_most_one_token(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine, line = Watched(decoder, tokenizer), "return record.value for record in records"
    generate(engine, prompt_of(tokenizer, line))
    for n in range(len(line) - 1, -1, -1):
        assert generate(engine, prompt_of(tokenizer, line[:n]), limit=1).recomputed <= 1


def test_an_accepted_suggestion_is_computed_already(folder: Path, tokenizer: Tokenizer) -> None:
    prompt, suggestion = prompt_of(tokenizer, "x ="), " record.value"
    script = [*bytewise(tokenizer, "="), *tokenizer.encode(suggestion).tolist(), *bytewise(tokenizer, "\n")]
    engine = scripted(folder, prompt, script, tokenizer)
    assert generate(engine, prompt, ONE_LINE).text == suggestion
    accepted = prompt_of(tokenizer, "x =" + suggestion)
    assert len(accepted.ids) > len(prompt.ids)
    assert generate(engine, accepted).recomputed <= 1


def test_a_second_document_that_begins_alike_is_copied_not_computed(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    first = generate(engine, prompt, owner="a")
    second = generate(engine, prompt, owner="b")
    assert second.recomputed <= 1
    assert second.text == first.text


# What the local cache sees


@dataclass(frozen=True)
class Seen(LocalCache):
    """A local cache that keeps the histories it was asked about."""

    histories: list[list[int]] = field(default_factory=list[list[int]])

    def mix(self, probabilities: npt.NDArray[np.float32], history: Ids) -> npt.NDArray[np.float32]:
        self.histories.append(history.tolist())
        return super().mix(probabilities, history)


def test_the_history_grows_by_each_token_that_was_picked(decoder: Decoder, tokenizer: Tokenizer) -> None:
    seen, prompt = Seen(CACHE.shares, CACHE.half_life), prompt_of(tokenizer, "def ")
    made = Watched(decoder, tokenizer).mixing(seen).generate("a", prompt, ENDLESS, 7, never)
    engine = Watched(decoder, tokenizer, cache=CACHE)
    assert generate(engine, prompt, limit=7).text == made.text
    picks = [pick.token for pick in engine.log.picks]
    assert seen.histories == [[*prompt.history.tolist(), *picks[:n]] for n in range(made.new_tokens)]


def test_engines_that_mix_otherwise_share_what_was_computed(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    plain = generate(engine, prompt)
    mixed = engine.mixing(CACHE).generate("a", prompt, ENDLESS, 12, never)
    assert (mixed.reused, mixed.recomputed) == (len(prompt.ids), 0)
    again = engine.mixing(None).generate("a", prompt, ENDLESS, 12, never)
    assert (again.text, again.recomputed) == (plain.text, 0)


PHRASE = "\nzebra.quagga(wombat, 77)\n"


@pytest.mark.parametrize(
    "around", [Surroundings(before=PHRASE), Surroundings(after=PHRASE), Surroundings(others=(PHRASE,))]
)
def test_a_phrase_that_no_prompt_shows_is_finished_from_the_surroundings(
    decoder: Decoder, tokenizer: Tokenizer, around: Surroundings
) -> None:
    template = find_template(tokenizer.special)
    prompts = [build(tokenizer, template, HEAD, TAIL, "zebra.qu", each) for each in (around, NOTHING)]
    engine = Watched(decoder, tokenizer, cache=CACHE.alone())
    texts = [generate(engine, prompt, ONE_LINE, limit=40).text for prompt in prompts]
    assert texts[0] == "agga(wombat, 77)" != texts[1]


# When it stops


@pytest.mark.parametrize("questions", range(10))
def test_nothing_is_computed_after_it_is_told_to_stop(decoder: Decoder, tokenizer: Tokenizer, questions: int) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    with pytest.raises(Stopped):
        engine.generate("a", prompt, ENDLESS, 12, after(questions))
    events = engine.log.events
    assert events.count("asked") == questions + 1
    assert events[-1] == "asked"
    expected = Watched(decoder, tokenizer)
    assert generate(engine, prompt).text == generate(expected, prompt).text


def test_it_asks_before_every_pass_and_no_pass_is_longer_than_a_chunk(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine, prompt = Watched(decoder, tokenizer), prompt_of(tokenizer, "def ")
    generate(engine, prompt)
    events = engine.log.events
    assert len(prompt.ids) > 3 * CHUNK
    assert max(engine.log.passes) == CHUNK
    assert all(events[n - 1] == "asked" for n, event in enumerate(events) if event != "asked")


def test_a_request_that_is_stopped_at_once_computes_nothing(decoder: Decoder, tokenizer: Tokenizer) -> None:
    engine = Watched(decoder, tokenizer)
    with pytest.raises(Stopped):
        engine.generate("a", prompt_of(tokenizer, "def "), ENDLESS, 12, lambda: True)
    assert engine.log.passes == []


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_no_more_tokens_than_the_limit_are_made(decoder: Decoder, tokenizer: Tokenizer, limit: int) -> None:
    engine = Watched(decoder, tokenizer)
    made = generate(engine, prompt_of(tokenizer, "def "), limit=limit)
    assert (made.new_tokens, made.complete) == (limit, False)
    assert len(engine.log.picks) == limit


def test_a_shorter_limit_gives_the_beginning_of_the_same_text(decoder: Decoder, tokenizer: Tokenizer) -> None:
    long = generate(Watched(decoder, tokenizer), prompt_of(tokenizer, "def "), limit=9).text
    short = generate(Watched(decoder, tokenizer), prompt_of(tokenizer, "def "), limit=4).text
    assert long.startswith(short)
    assert short


@pytest.mark.parametrize("spare", [0, 1, 5])
def test_a_full_arena_ends_the_text(decoder: Decoder, tokenizer: Tokenizer, spare: int) -> None:
    prompt = prompt_of(tokenizer, "def ")
    engine = Watched(decoder, tokenizer, capacity=len(prompt.ids) + spare)
    made = generate(engine, prompt)
    assert (made.new_tokens, made.complete) == (spare + 1, False)
    assert made.text == generate(Watched(decoder, tokenizer), prompt, limit=spare + 1).text


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_pad|>"])
def test_special_tokens_end_the_text_and_are_not_part_of_it(folder: Path, tokenizer: Tokenizer, special: str) -> None:
    prompt = prompt_of(tokenizer, "x = ")
    script = [*bytewise(tokenizer, " ab"), tokenizer.special[special], *bytewise(tokenizer, "cd")]
    made = generate(scripted(folder, prompt, script, tokenizer), prompt)
    assert (made.text, made.new_tokens, made.complete) == ("ab", 4, True)


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
    assert len(engine.log.picks) == len("1 + 2") + 1


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_several_lines_end_where_their_block_does_and_are_parted_by_line_feeds(
    folder: Path, tokenizer: Tokenizer, ending: str
) -> None:
    prompt = prompt_of(tokenizer, "def f(x):")
    script = bytewise(tokenizer, ending.join(["):", "    y = x", "", "    return y", "z = 1", "a"]))
    rule = stop_rule("def f(x):", explicit=False, rest_closes=True, max_lines=12)
    made = generate(scripted(folder, prompt, script, tokenizer), prompt, rule, limit=60)
    assert (made.text, made.complete) == ("\n    y = x\n\n    return y", True)


@settings(deadline=None, max_examples=200)
@given(
    lines=st.lists(st.sampled_from(["", "", "  ", "    x = 1", "    f(", "    )", "y", ")", "\tz"]), max_size=8),
    before=st.sampled_from(["", "    ", "def f():", "    call(", "    a,"]),
)
@example(lines=["", "    x = 1", "", "    x = 1", "y"], before="def f():")
def test_a_text_ends_where_it_would_end_if_it_were_all_there(lines: list[str], before: str) -> None:
    rule, text = stop_rule(before, explicit=False, rest_closes=True, max_lines=6), "\n".join(lines)
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

WORDS = [
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
]
typed_texts = st.one_of(st.lists(st.sampled_from(WORDS), max_size=8).map("".join), st.text(max_size=60))


def is_text(text: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


@settings(deadline=None, max_examples=100)
@given(typed=typed_texts.filter(is_text), cache=st.booleans())
@example("x" * 48, False)
@example("é" * 30, True)
@example("日本語の変数", False)
@example("def f():\r", False)
@example("e\u0301", False)
def test_what_is_made_begins_with_the_unfinished_word_and_the_answer_never_repeats_it(
    decoder: Decoder, tokenizer: Tokenizer, typed: str, cache: bool
) -> None:
    engine, prompt = (
        Watched(decoder, tokenizer, cache=CACHE if cache else None),
        prompt_of(tokenizer, typed, HEAD[:200], ""),
    )
    made = generate(engine, prompt, limit=60)
    whole = spelled(engine, tokenizer)
    assert whole.startswith(prompt.stub) or prompt.stub.startswith(whole)
    text = whole[len(prompt.stub) :].decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")
    whole_lines = text.rpartition("\n")[0] if "\n" in text and not made.complete else text
    assert made.text == whole_lines[: ENDLESS.cut(whole_lines)]


@settings(deadline=None, max_examples=100)
@given(typed=typed_texts.filter(is_text))
def test_prompt_and_unfinished_word_are_the_document(tokenizer: Tokenizer, typed: str) -> None:
    prompt = prompt_of(tokenizer, typed)
    whole = tokenizer.decode(prompt.ids) + prompt.stub.decode()
    assert whole == f"<|fim_prefix|>{HEAD}<|fim_suffix|>{TAIL}<|fim_middle|>{typed}"
    assert len(prompt.ids) == 3 + prompt.head + prompt.tail + prompt.typed


def test_half_a_surrogate_pair_at_the_cursor_is_no_obstacle(decoder: Decoder, tokenizer: Tokenizer) -> None:
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
    decoder = decoder_of(make(tmp_path, Tiny(vocabulary=4000)))
    for typed in ("", "x", "def f(", "return "):
        made = generate(Watched(decoder, tokenizer), prompt_of(tokenizer, typed))
        assert made.new_tokens > 0
