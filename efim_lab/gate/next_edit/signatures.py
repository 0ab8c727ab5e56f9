"""Definitions whose parameters a commit changed, and its edits of their calls, found by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from efim_lab.gate.next_edit.histories import ChangedFile, LineRewrite

DEFINITION = re.compile(
    r"^[^\S\n]*(?:(?:export|default|pub(?:\(\w+\))?|async|static|public|private|protected|unsafe|const) +)*"
    r"(?:(?:def|fn|function\*?) +|func +(?:\([^)\n]*\) *)?|(?P<method>))"
    r"(?P<name>\w+)(?P<arrow> *= *(?:async *)?)?(?:<[^()\n]*>|\[[^()\n]*\])? *\(",
    re.MULTILINE,
)
TYPE = r"(?: *: *[^;()=\n]+)? *"
METHOD, ARROW = re.compile(TYPE + r"\{$", re.MULTILINE), re.compile(TYPE + "=>")  # behind the parameters
CLASS = re.compile(r"^( *)(?:export +)?(?:default +)?(?:abstract +)?class +(\w+)", re.MULTILINE)
NO_METHODS = frozenset(
    {"if", "for", "while", "switch", "catch", "return", "with", "elif", "match", "assert", "super"}
)


class _Span(NamedTuple):
    """What stands between two parentheses, by its offsets, and where its lines begin and end."""

    start: int
    end: int
    first: int
    last: int


def changed_signatures(changed: ChangedFile, text: str) -> Iterator[tuple[LineRewrite, Mapping[int, str]]]:
    """Yield lines of definitions whose parameters were rewritten, with what the lines of their calls became.

    There is nothing for a definition that is not called in the file, nor for one whose calls were changed otherwise.
    """
    by_line = {each.line: each for each in changed.rewrites}
    for found in DEFINITION.finditer(text):
        inside = _span(text, found.end())
        if inside is None or not _is_definition(found, text, inside):
            continue
        rewritten = [by_line[line] for line in range(inside.first, inside.last + 1) if line in by_line]
        if len(rewritten) != 1 or changed.others.intersection(range(inside.first, inside.last + 1)):
            continue
        if _changes_within(rewritten[0], text, inside):
            calls = _calls(changed, by_line, text, _called(found, text), inside)
            if calls is not None:
                yield rewritten[0], calls


def _calls(
    changed: ChangedFile, by_line: Mapping[int, LineRewrite], text: str, name: str, definition: _Span
) -> Mapping[int, str] | None:
    """Return what lines with calls became, whose arguments alone were changed; None if there is no telling."""
    found, any_call, any_change = dict[int, str](), False, False
    for call in re.finditer(rf"(?<!\w){name}\(", text):
        before = text[text.rfind("\n", 0, call.start()) + 1 : call.start()]
        inside = _span(text, call.end())
        if inside is None or inside.start == definition.start or re.search(r"\b(?:def|fn|func|function) +$", before):
            continue
        any_call = True
        lines = range(inside.first, inside.last + 1)
        any_change = any_change or any(line in by_line or line in changed.others for line in lines)
        rewrite = by_line.get(inside.first)
        if rewrite is not None and inside.first == inside.last and _changes_within(rewrite, text, inside):
            found[inside.first] = rewrite.after
    return found if found or (any_call and not any_change) else None


def _called(definition: re.Match[str], text: str) -> str:
    """Return the name by which a definition is called: for constructors, the name of the class around them."""
    if definition["name"] not in ("__init__", "constructor"):
        return definition["name"]
    indent = len(definition[0]) - len(definition[0].lstrip())
    around = [each[2] for each in CLASS.finditer(text, 0, definition.start()) if len(each[1]) < indent]
    return around[-1] if around else definition["name"]


def _is_definition(found: re.Match[str], text: str, inside: _Span) -> bool:
    """Return whether what has no keyword in front has a body behind it."""
    if found["method"] is None:
        return found["arrow"] is None
    body = ARROW if found["arrow"] else METHOD
    return found["name"] not in NO_METHODS and body.match(text, inside.end + 1) is not None


def _span(text: str, start: int) -> _Span | None:
    """Return what stands from an offset to its closing parenthesis, None if there is none within 3,000 characters."""
    depth = 0
    for each in re.finditer(r"[()]", text[start : start + 3000]):
        depth += 1 if each[0] == "(" else -1
        if depth < 0:
            end = start + each.start()
            return _Span(start, end, text.count("\n", 0, start), text.count("\n", 0, end))
    return None


def _changes_within(rewrite: LineRewrite, text: str, inside: _Span) -> bool:
    """Return whether a line was changed between two parentheses of it, or of lines around it, and nowhere else."""
    begins = sum(map(len, text.split("\n", rewrite.line)[: rewrite.line])) + rewrite.line
    left = rewrite.before[: max(0, inside.start - begins)]
    right = rewrite.before[inside.end - begins :] if inside.end - begins <= len(rewrite.before) else ""
    room = len(rewrite.after) - len(left) - len(right)
    return room >= 0 and rewrite.after.startswith(left) and rewrite.after.endswith(right)
