"""What changes between two prompts: the context, the layout of the text, a branch, the place of the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from efim_lab.gate.evaluation.places.cursors import Context, line_at
from efim_lab.studies.reuse.places import EARLIER, ReusePlace
from efim_lab.studies.reuse.subject import NEW_TOKENS, ReuseSubject, Target
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena

BEFORE, AFTER = 1600, 800  # characters of a window before the cursor and after its line
ORDER = (3, 0, 4, 1)  # of the excerpts that stay when the context changes; the spare one comes second
WIDE = 72  # characters: a formatter splits the calls in longer lines
QUOTED = re.compile(r"(?<!['\"\w])'([^'\"\\\n]*)'(?!['\"])")
TWICE = re.compile(r'(?<![\'"\w])"([^\'"\\\n]*)"(?![\'"])')
CALL = re.compile(r"^( *)(.*\()([^()\n]{16,})(\)[^()\n]*)$")


@dataclass(frozen=True)
class Scenario:
    """A prompt, `ids`, with the same frame's `arena` as the prompt before left it, and `others`.

    `chunks` are the excerpts in the prompt, each with its first row. `target` should follow the prompt.
    """

    name: str
    ids: Ids
    arena: Arena
    others: tuple[Arena, ...]
    target: Target
    chunks: tuple[tuple[int, Ids], ...] = ()


def scenarios(subject: ReuseSubject, place: ReusePlace) -> Iterator[Scenario]:
    """Yield what can happen at a place: a cold open, a changed context, a formatter, another branch, a jump."""
    now = _context(place, place.row, len(place.context.typed))
    window, target = subject.window(now, place.rest)
    yield Scenario("cold", window, subject.arena(), (), target)
    yield _changed_context(subject, place, now)
    for name, before in (
        ("formatter", replace(now, head=other_layout(now.head))),
        ("branch", replace(now, head=other_branch(now.head, place.spare.text))),
        ("jump", _earlier(place, now)),
    ):
        arena = subject.computed(subject.window(before, "")[0])
        yield Scenario(name, window, arena, (), target)


def other_layout(text: str) -> str:
    """Return a text as another formatter would lay it out: the other quotes, long calls in separate lines."""
    double, single = len(TWICE.findall(text)), len(QUOTED.findall(text))
    text = TWICE.sub(r"'\1'", text) if double > single else QUOTED.sub(r'"\1"', text)
    return "\n".join(_split(line) for line in text.split("\n"))


def other_branch(text: str, other: str) -> str:
    """Return a text in which a sixth of the lines, in the middle, is replaced by another text."""
    lines = text.split("\n")
    start, end = len(lines) * 5 // 12, len(lines) * 7 // 12
    return "\n".join([*lines[:start], *other.split("\n")[: end - start + 2], *lines[end:]])


def _split(line: str) -> str:
    if len(line) <= WIDE or not (call := CALL.match(line)):
        return line
    indent, before, arguments, after = call.groups()
    return f"{indent}{before}\n{indent}    {arguments.rstrip(', ')},\n{indent}{after}"


def _context(place: ReusePlace, row: int, typed: int) -> Context:
    line, anchor = line_at(place.text, row)
    end = anchor + len(line)
    start = max(0, anchor - BEFORE)
    start = start if start == 0 else place.text.index("\n", start - 1) + 1
    return Context(place.text[start:anchor], line[:typed], place.text[end + 1 : end + 1 + AFTER], 1)


def _earlier(place: ReusePlace, now: Context) -> Context:
    """Return the context of a cursor some lines above, in a window that begins at the same line."""
    before = _context(place, place.row - EARLIER, 0)
    (_, above), (_, here) = line_at(place.text, place.row - EARLIER), line_at(place.text, place.row)
    return replace(before, head=now.head[: max(0, len(now.head) - (here - above))])


def _changed_context(subject: ReuseSubject, place: ReusePlace, now: Context) -> Scenario:
    window, target = subject.window(now, place.rest)
    room = subject.config.context - NEW_TOKENS - len(window)
    excerpts = [subject.excerpt(each) for each in place.excerpts]
    spare = subject.excerpt(place.spare)
    while sum(map(len, excerpts)) + len(spare) > room:
        excerpts = [each[: len(each) * 3 // 4] for each in excerpts]
        spare = spare[: len(spare) * 3 // 4]
    kept = [excerpts[number] for number in ORDER]
    after = [kept[0], spare, *kept[1:]]
    arena = subject.computed(subject.joined(excerpts, window))
    alone = tuple(subject.computed(each) for each in (*excerpts, spare))
    bos = len(subject.template.bos)
    starts = bos + np.cumsum([0, *map(len, after)])
    chunks = tuple(zip(starts.tolist(), after, strict=False))
    return Scenario("context", subject.joined(after, window), arena, alone, target, chunks)
