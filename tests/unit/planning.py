"""Texts, edit histories and counters for the tests of the planner."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from efim_ls.completion.planning.planner import FRAMES, Plan, Planner, PromptOf
from efim_ls.completion.planning.window import Budget, Pieces, Window
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId, Pool
from model_runtime.kv.sequence import TokenSequence
from model_runtime.prompt.pieces import fragments
from model_runtime.prompt.prompt import Prompt, build, order_parts, window_ids
from model_runtime.prompt.template import Template, find_template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import SequenceKey

TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")
Operation = tuple[str, int, str]
Session = tuple[str, int, list[Operation]]


@dataclass(frozen=True)
class Counter:
    """What a planner is made with."""

    pieces: Pieces
    prompt: PromptOf
    budget: Budget

    def ids(self, plan: Plan) -> Ids:
        return self.prompt(plan).ids

    def planner(self) -> Planner:
        return Planner(self.budget, self.pieces, self.prompt)

    @property
    def window(self) -> Window:
        return Window(self.budget, self.pieces)

    def count(self, text: str) -> int:
        return self.window.count(text)


def fours(text: str) -> list[tuple[str, int]]:
    """A token for every four characters begun: as fast as a counter gets."""
    return [(piece, -(-len(piece) // 4)) for piece in fragments(text)]


def _ids_of_fours(text: str) -> Ids:
    parts = [piece[at : at + 4] for piece in fragments(text) for at in range(0, len(piece), 4)]
    return np.array([zlib.crc32(part.encode("utf-8", "replace")) >> 1 for part in parts], dtype=np.int32)


def prompt_of_fours(plan: Plan) -> Prompt:
    """A prompt of such tokens, not healed."""
    texts = [_ids_of_fours(text) for text in (plan.head, plan.tail, plan.typed)]
    parts = order_parts(Template((0,), (1,), (2,)), *texts)
    return Prompt(parts, b"", window_ids(parts))


def real_prompt(plan: Plan) -> Prompt:
    """The prompt that the server sends."""
    return build(TOKENIZER, find_template(TOKENIZER), plan.head, plan.tail, plan.typed)


CHEAPLY = Counter(fours, prompt_of_fours, Budget(head=60, tail=20))
REALLY = Counter(TOKENIZER.pieces, real_prompt, Budget(head=120, tail=40))
counters = pytest.mark.parametrize("counter", [CHEAPLY, REALLY], ids=["cheap", "real tokenizer"])
unhurried = settings(max_examples=50)
fewer = settings(max_examples=25)

line_ends = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])
short_lines = st.sampled_from(
    ["", "", "    ", "\t", "\f", "def f(a):", "    return a", "x = [1, 2]", "})", "naïve = '日本😀'", "# \u2028 \x85"]
)
other_lines = st.one_of(
    short_lines,
    short_lines,
    st.sampled_from(["    call(first, second, third, [fourth])", "x" * 10_000, "0, 1, " * 150, " " * 300, "-" * 300]),
    st.text(max_size=12),
)


def joined(lines: st.SearchStrategy[str], most: int) -> st.SearchStrategy[str]:
    """Texts of such lines, with or without an end of the last one."""
    ended = st.lists(st.tuples(lines, line_ends).map("".join), max_size=most).map("".join)
    return st.tuples(ended, lines).map("".join)


short_texts, texts = joined(short_lines, 25), joined(other_lines, 25)
places = st.integers(0, 1000)  # per mille of a text
keystrokes = st.sampled_from([*"ab1_.,= \t\n\n(['", "\r\n", "\r", "é", "😀", "    ", "word", "\f"])
operations: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("type"), st.just(0), keystrokes),
    st.tuples(st.just("type"), st.just(0), keystrokes),
    st.tuples(st.just("type"), st.just(0), joined(other_lines, 6)),
    st.tuples(st.just("backspace"), st.integers(1, 12), st.just("")),
    st.tuples(st.just("insert"), places, joined(short_lines, 3)),
    st.tuples(st.just("delete"), places, st.sampled_from(["1", "2", "10", "60", "400"])),
    st.tuples(st.just("jump"), places, st.just("")),
    st.tuples(st.just("undo"), st.just(0), st.just("")),
)


class Played:
    """A planner, and sequences that are brought to what it plans."""

    def __init__(self, counter: Counter, sequences: int = FRAMES) -> None:
        self.planner = counter.planner()
        self._ids, self._pool = counter.ids, Pool(lambda: TokenSequence(10_000), sequences)

    def plan(self, text: str, cursor: int) -> tuple[Plan, int]:
        plan = self.planner.plan(text, cursor).plan
        return plan, self.compute(plan)

    def compute(self, plan: Plan) -> int:
        """Compute a prompt: the number of tokens that this takes."""
        ids = self._ids(plan)
        sequence = self._pool.acquire(FrameId("", plan.number), SequenceKey(ids))
        reused = sequence.reusable(SequenceKey(ids))
        sequence.truncate(reused)
        sequence.append(ids[reused:])
        sequence.logits_at = len(ids)
        return len(ids) - reused


class Editor:
    """A text with a cursor, edited as a person would."""

    def __init__(self, text: str, cursor: int) -> None:
        self.text, self.cursor = text, cursor
        self._undo: list[tuple[str, int]] = []

    @property
    def state(self) -> tuple[str, int]:
        return self.text, self.cursor

    def do(self, operation: Operation) -> tuple[str, int]:
        kind, number, text = operation
        place = len(self.text) * number // 1000
        if kind == "type":
            self._replace(self.cursor, self.cursor, text)
        elif kind == "backspace":
            self._replace(max(0, self.cursor - number), self.cursor, "")
        elif kind == "insert":
            self._replace(place, place, text)
        elif kind == "delete":
            self._replace(place, min(len(self.text), place + int(text)), "")
        elif kind == "jump":
            self.cursor = place
        elif self._undo:
            self.text, self.cursor = self._undo.pop()
        return self.state

    def type(self, text: str) -> tuple[str, int]:
        return self.do(("type", 0, text))

    def undo(self) -> tuple[str, int]:
        return self.do(("undo", 0, ""))

    def go_behind(self, line: str) -> tuple[str, int]:
        """Put the cursor at the end of a line that begins like this, which may have gone on since."""
        found = re.search(rf"(?m)^{re.escape(line)}.*$", self.text)
        assert found
        self.cursor = found.end()
        return self.state

    def _replace(self, start: int, end: int, new: str) -> None:
        self._undo.append((self.text, self.cursor))
        self.text = self.text[:start] + new + self.text[end:]
        if self.cursor >= end:
            self.cursor += len(new) - (end - start)
        elif self.cursor > start:
            self.cursor = start + len(new)


def histories(text: st.SearchStrategy[str], most: int = 12) -> st.SearchStrategy[Session]:
    return st.tuples(text, places, st.lists(operations, max_size=most))


def states(text: str, place: int, history: list[Operation]) -> Iterator[tuple[str, int]]:
    """The text and cursor before and after each operation."""
    editor = Editor(text, len(text) * place // 1000)
    yield editor.state
    for operation in history:
        yield editor.do(operation)


def numbered(count: int) -> str:
    return "".join(f"value_{i} = {i}\n" for i in range(count))


def frame(plan: Plan) -> tuple[int, str, str]:
    return plan.start, plan.head, plan.tail


def is_at_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] in "\r\n"


def line_around(text: str, at: int) -> str:
    left, right = re.split(r"[\r\n]", text[:at])[-1], re.split(r"[\r\n]", text[at:])[0]
    return left + right


def next_line(text: str, at: int) -> int:
    """Where the line after the one around a place begins."""
    return re.compile(r"[^\r\n]*(?:\r\n|\r|\n|)").match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess]
