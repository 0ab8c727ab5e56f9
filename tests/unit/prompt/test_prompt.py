"""Prompts as they are sent: drawings to read, and what holds for any text."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from efim_ls.completion.planning.planner import Plan, Planner
from efim_ls.completion.planning.window import Budget
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.pieces import LONGEST_FRAGMENT
from model_runtime.prompt.prompt import LONGEST_STUB_BYTES, Prompt, Surroundings, build, heal
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.unit.prompt.each_tokenizer import each_tokenizer

GOLDEN = Path(__file__).parents[2] / "golden" / "prompts"
TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")
TEMPLATE = find_template(TOKENIZER)

unhurried = settings(max_examples=80)
code = st.lists(
    st.sampled_from([*" \t\n\r\f.,:;(){}[]=_'#1", "\r\n", "    ", "def", "naïve", "日本", "😀", "<|fim_middle|>"]),
    max_size=30,
).map("".join)
texts = st.one_of(code, st.text(st.characters(), max_size=60))
letters = st.text(st.sampled_from("abcßéλ日本"), min_size=1, max_size=20)


@dataclass(frozen=True)
class Case:
    """A cursor ‸ drawn in a document; `keys` are typed there one after the other, then the prompt is made."""

    name: str
    document: str
    prompt: str
    stub: str
    keys: list[str] = field(default_factory=list)
    head_tokens: int = 1536
    tail_tokens: int = 384

    def made(self) -> Prompt:
        before, mark, after = self.document.partition("‸")
        assert mark
        planner = Planner(Budget(self.head_tokens, self.tail_tokens), TOKENIZER.pieces, sent)
        plan = planner.plan(before + after, len(before)).plan
        for key in self.keys:
            before += key
            plan = planner.plan(before + after, len(before)).plan
        return sent(plan)


def sent(plan: Plan) -> Prompt:
    return build(TOKENIZER, TEMPLATE, plan.head, plan.tail, plan.typed)


CASES = {
    f"{path.stem}: {raw['name']}": Case(**raw)
    for path in sorted(GOLDEN.glob("*.toml"))
    for raw in tomllib.loads(path.read_text("utf-8"))["case"]
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_drawn_cursor_gives_the_drawn_prompt(case: Case) -> None:
    made = case.made()
    assert TOKENIZER.decode(made.ids) == case.prompt
    assert made.stub.decode() == case.stub


@each_tokenizer
@unhurried
@given(texts)
@example("x = '\ud83d")
def test_what_is_done_and_the_stub_make_up_what_was_typed(tokenizer: Tokenizer, typed: str) -> None:
    done, stub = heal(tokenizer, typed)
    assert done + stub == typed
    assert len(stub.encode("utf-8", "replace")) <= LONGEST_STUB_BYTES
    assert "\n" not in stub and "\r" not in stub


@each_tokenizer
@unhurried
@given(code, letters, letters)
@example("    return ", "wid", "th")
@example("", "ß" * 12, "日" * 12)
def test_typing_on_inside_a_word_changes_no_token(tokenizer: Tokenizer, before: str, word: str, more: str) -> None:
    template = find_template(tokenizer)
    longest_word = max(len(each.encode()) for each in re.findall(r"\w+", before + word + more))
    if longest_word >= LONGEST_STUB_BYTES or len(before + word + more) > LONGEST_FRAGMENT:
        return
    assert heal(tokenizer, before + word)[1].endswith(word)
    one = build(tokenizer, template, "head\n", "tail\n", before + word)
    two = build(tokenizer, template, "head\n", "tail\n", before + word + more)
    assert one.ids.tolist() == two.ids.tolist()
    assert two.stub == one.stub + more.encode()


def test_a_word_too_long_to_be_one_is_sent_as_it_is() -> None:
    longest, longer = "x" * LONGEST_STUB_BYTES, "x" * (LONGEST_STUB_BYTES + 1)
    assert heal(TOKENIZER, "a =\n" + longest) == ("a =\n", longest)
    assert heal(TOKENIZER, "a =\n" + longer) == ("a =\n" + longer, "")


@each_tokenizer
@unhurried
@given(code, code, code)
def test_a_prompt_is_its_parts_between_markers(tokenizer: Tokenizer, head: str, tail: str, typed: str) -> None:
    template = find_template(tokenizer)
    made = build(tokenizer, template, head, tail, typed)
    h, t, y = (tokenizer.encode(text).tolist() for text in (head, tail, heal(tokenizer, typed)[0]))
    assert made.ids.tolist() == [*template.prefix, *h, *template.suffix, *t, *template.middle, *y]
    assert (made.size("head"), made.size("tail"), made.size("typed")) == (len(h), len(t), len(y))


@each_tokenizer
@unhurried
@given(code, code, code)
def test_the_history_is_the_tail_a_break_and_what_stands_before_the_cursor(
    tokenizer: Tokenizer, head: str, tail: str, typed: str
) -> None:
    template = find_template(tokenizer)
    made = build(tokenizer, template, head, tail, typed)
    h, t, y = (tokenizer.encode(text).tolist() for text in (head, tail, heal(tokenizer, typed)[0]))
    assert made.history.tolist() == [*t, -1, *h, *y]


@unhurried
@given(code, code, code, code, code, st.lists(code, max_size=3))
def test_the_history_is_all_that_surrounds_the_cursor_the_nearest_last(
    head: str, tail: str, typed: str, before: str, after: str, others: list[str]
) -> None:
    around = Surroundings(before, after, tuple(others))
    made, window = (build(TOKENIZER, TEMPLATE, head, tail, typed, each) for each in (around, Surroundings()))
    h, t, y = (TOKENIZER.encode(text).tolist() for text in (head, tail, heal(TOKENIZER, typed)[0]))
    beside = [token for other in others for token in [*TOKENIZER.encode(other).tolist(), -1]]
    above, below = TOKENIZER.encode(before).tolist(), TOKENIZER.encode(after).tolist()
    assert made.history.tolist() == [*beside, *t, *below, -1, *above, *h, *y]
    assert made.ids.tolist() == window.ids.tolist()


@each_tokenizer
@unhurried
@given(code, code, code)
def test_only_the_three_markers_are_special(tokenizer: Tokenizer, head: str, tail: str, typed: str) -> None:
    template = find_template(tokenizer)
    special = set(tokenizer.special.values())
    found = [i for i in build(tokenizer, template, head, tail, typed).ids.tolist() if i in special]
    assert found == [*template.prefix, *template.suffix, *template.middle]


def test_a_stub_that_is_no_text_is_replaced_in_bytes() -> None:
    assert build(TOKENIZER, TEMPLATE, "", "", "x = '\ud83d").stub == b" '?"
