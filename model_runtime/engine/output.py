"""The text of an answer as it is decoded: what its tokens spell, where it ends, and how sure the model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from model_runtime.counts.lookup import NO_IDS
from model_runtime.counts.segment import MOST
from model_runtime.engine.probability import Step, TextProbability, byte_offsets
from model_runtime.engine.rest_of_line import evidence, find_rest, is_closers
from model_runtime.engine.sampler import Choice, Sampler
from model_runtime.ids import Ids

OPENERS = (":", "(", "[", "{")


class Rule(Protocol):
    """Where a suggestion ends."""

    def cut(self, text: str, /) -> int | None:
        """Return the length of the finished suggestion at the start of `text`, or None while it may go on."""
        ...


class Output:
    """The text after a prompt, token by token.

    `spelled` are its bytes, and `stub` has still to be spelled. `complete` is true once an end token or the rule has
    ended the text. `confidence` is the joint probability of all tokens of the first line that is not blank, including
    its end once that is there; `line_ended` is true from then on.
    """

    def __init__(self, sampler: Sampler, stub: bytes, rule: Rule, history: Ids = NO_IDS) -> None:
        """Start empty after a history."""
        self._history = history[-MOST:].copy()  # the rest of the history is large
        self.stub, self.complete, self.line_ended, self.confidence = stub, False, False, 1.0
        self._sampler, self._rule = sampler, rule
        self.spelled, self._steps = b"", list[Step]()

    def append(self, choice: Choice) -> None:
        """Append a token."""
        share, stub = self._sampler.probability(choice, self.stub), self.stub
        if not self.line_ended:
            self.confidence *= share
        self.complete = choice.token in self._sampler.ends
        if not self.complete:
            piece = self._sampler.token_bytes[choice.token]
            self.stub, piece = self.stub[len(piece) :], piece[len(self.stub) :]
            self.spelled += piece
            text = decoded(self.spelled)
            self.complete = self._rule.cut(text) is not None
            self.line_ended = self.line_ended or "\n" in text.lstrip()
        self.line_ended = self.line_ended or self.complete
        self._steps.append(Step(choice, stub, share, len(self.spelled)))

    @property
    def likelihood(self) -> TextProbability:
        """The text with the chances of its tokens."""
        text, offsets = decoded(self.spelled), byte_offsets(self.spelled)
        whole = TextProbability(self._sampler, self.spelled, tuple(self._steps), text, offsets, self._history)
        return whole.along(self.text)

    @property
    def text(self) -> str:
        """The text up to where the rule ends it; without an end, the whole lines of a text of several."""
        text = decoded(self.spelled)
        return text[: self._rule.cut(text)] if self.complete or "\n" not in text else text.rpartition("\n")[0]


@dataclass(frozen=True)
class StopRule:
    """Where a suggestion ends: at the end of its line or of its indented block, or at code that follows it.

    `rest` is that code, right of the cursor on its line, or empty; before code, a suggestion has one line. `indent`
    is the least indentation, in columns, of the block's lines; a line that begins with a closing bracket may be
    indented less, and is the last of the block.
    """

    multiline: bool
    indent: int
    max_lines: int
    rest: str = ""

    def cut(self, text: str) -> int | None:
        r"""Return the length of the finished suggestion at the start of `text` (lines end in \n), or None.

        None means that it may go on. The length includes what the text repeats of the rest, the evidence for the end.
        """
        lines = text.split("\n")
        if self.rest and (met := find_rest(lines[0], self.rest)) is not None:
            return met + len(evidence(self.rest))
        if not self.multiline:
            return len(lines[0]) if len(lines) > 1 else None
        for i in range(1, len(lines)):
            if self._is_outside(lines, i):
                return len("\n".join(lines[:i]))
            if self._closes(lines[i]) and i + 1 < len(lines):
                return len("\n".join(lines[: i + 1]))
        return None

    def _is_outside(self, lines: list[str], i: int) -> bool:
        line, ended = lines[i].strip(), i + 1 < len(lines)
        if i >= self.max_lines or (i > 1 and ended and not line and not lines[i - 1].strip()):
            return True
        return bool(line) and indent_width(lines[i]) < self.indent and not self._closes(lines[i])

    def _closes(self, line: str) -> bool:
        return line.strip()[:1] in tuple(")]}") and indent_width(line) < self.indent


def stop_rule(before: str, rest: str, explicit: bool, max_lines: int) -> StopRule:
    """Return the rule for a cursor's line: several lines if it is blank, if it opens a block, or on demand.

    `before` and `rest` are the text of the line on either side of the cursor. If the rest is code and not
    only closers, a suggestion is one line and ends where it repeats the rest.
    """
    ending, code = before.rstrip(), "" if is_closers(rest) else rest
    several = not code and (explicit or not ending or _opens_block(ending))
    return StopRule(several, indent_width(before) + ending.endswith(OPENERS), max_lines, code)


def _opens_block(line: str) -> bool:
    """Return whether a line ends with a block's opener, outside of a signature, a call or a literal."""
    opened, closed = (sum(map(line[:-1].count, brackets)) for brackets in ("([{", ")]}"))
    return line.endswith((":", "{")) and opened == closed


def indent_width(line: str) -> int:
    """Return the indentation of a line in columns; a tab reaches to the next multiple of four."""
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def decoded(spelled: bytes) -> str:
    r"""Return the text that bytes spell, without an unfinished character at its end; lines end in \n."""
    return spelled.decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")
