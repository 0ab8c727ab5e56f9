"""The rule *signature*: calls are offered to follow a definition whose parameters were changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from math import log1p
from typing import NamedTuple

from efim_ls.next_edit.changes import LineChange, is_being_typed
from efim_ls.next_edit.pattern import Occurrence, outwards
from efim_ls.next_edit.scope import is_bound, is_prose
from efim_ls.next_edit.situation import Candidate, Situation
from efim_ls.next_edit.syntax.calls import Call, ParameterChange, Step, argument, calls, changed_parameter, followed
from efim_ls.next_edit.syntax.definitions import ChangedDefinition, changed_definition
from efim_ls.next_edit.tokens import TokenChange, tokens
from efim_ls.text.document import Document
from efim_ls.text.lines import enclosing_line, line_start

MOST_KINDS = 8  # of changed tokens, the last ones, whose last and first changes may be of definitions
MOST_PARSED, MOST_OFFERED = 3, 2  # calls whose surroundings are parsed; that are offered
LITERAL = re.compile(r"-?\d[\w.]*|\"[^\"]*\"|'[^']*'|None|True|False|nil|null|undefined|true|false")
OWN = re.compile(r"\b(?:self|this|Self)(?:\.|::)\w+\W*\($")
CHAINED = re.compile(r"(?:[)\]]|\.\w+)\.\w+\W*\($")


class _Changed(NamedTuple):
    """A definition, with the change of its line and that of its parameters."""

    change: LineChange
    definition: ChangedDefinition
    what: ParameterChange


def signature(situation: Situation) -> Sequence[Candidate]:
    """Return the calls that should follow a definition which was changed, the nearest first.

    The last change is the definition's, one of its calls', that of a name which it replaced, or that of another
    definition whose new parameter is passed on.
    """
    document, cursor, changes, *_ = situation
    if is_being_typed(changes[-1].because[-1], cursor):
        return ()
    found = [each for change in _recent(changes) if (each := _changed(document, change))]
    return [candidate for each in found for candidate in islice(_candidates(situation, each, found[0]), MOST_OFFERED)]


def _recent(changes: Sequence[LineChange]) -> Sequence[LineChange]:
    """Return the last changes, of which some may be definitions, the very last one first."""
    alike = dict[object, list[LineChange]]()
    for each in reversed(changes):
        alike.setdefault(each.change.pair, []).append(each)
    groups = list(alike.values())[:MOST_KINDS]
    return [each for group in groups for each in (group[0], *group[1:][-1:])]


def _changed(document: Document, change: LineChange) -> _Changed | None:
    definition = changed_definition(document, change)
    what = changed_parameter(definition) if definition else None
    return _Changed(change, definition, what) if definition and what else None


def _candidates(situation: Situation, changed: _Changed, newest: _Changed) -> Iterator[Candidate]:
    document, _, changes, *_ = situation
    change, definition, what = changed
    last, passed = changes[-1], what.new.name if what.new else ""
    all_calls = list(calls(document, situation.cursor, definition))
    example, edited = "", list[Call]()
    if change is not last:
        edited = [each for each in all_calls if each.line == last.line]
        passes_on = newest.change is last and what.old is None and what.new == newest.what.new
        renamed = what.old is not None and last.change.pair == ((what.old.name,), (passed,))
        if not (edited or passes_on or renamed):
            return
        if edited and what.new and what.old is None:
            example = argument(edited[0], what.number, what.new.name, document.language)
            passed = example if example.isidentifier() or LITERAL.fullmatch(example) else passed
    if what.new and what.new.optional and not what.old and not example:
        return
    done = {each.line for each in changes[changes.index(change) :]}
    waiting = [each for each in all_calls if each.line not in done]
    steps = [
        (each, step)
        for each in waiting
        if (step := followed(each, definition.before, what, passed, document.language))
    ]
    features = {
        "removed": what.new is None,
        "replaced": what.old is not None and what.new is not None,
        "member": definition.called == "as member",
        "calls": log1p(len(waiting)),
        "followed": bool(edited),
        "example": bool(example) and passed == example,
    }
    because = change.because if change is last else (*change.because, *last.because)
    for call, step in steps[:MOST_PARSED]:
        at, variable = call.start - 1, step.variable
        bound = not variable or LITERAL.fullmatch(variable) is not None or is_bound(document, at, variable)
        if bound and not is_prose(document, at):
            yield Candidate(_place(document, call, step), features | _of_call(call, change, document), because)


def _place(document: Document, call: Call, step: Step) -> Occurrence:
    """Return a step as a change of tokens that begins at the parenthesis, or at the line if that is above it."""
    text = document.text
    start, end, _ = enclosing_line(text, step.start)
    at = max(call.start - 1, start)
    left, right = tokens(text[start:at]), tokens(text[step.end : end])
    change = TokenChange(left, tokens(text[at : step.end]), tokens(text[at : step.start] + step.added), right)
    return Occurrence(document.line_of(at), at, step.end, outwards(left, right), 0, 0, change)


def _of_call(call: Call, change: LineChange, document: Document) -> dict[str, float]:
    before = document.text[line_start(document.text, call.start) : call.start]
    return {
        "below": call.line > change.line,
        "distance": log1p(abs(call.line - change.line)),
        "own": OWN.search(before) is not None,
        "chained": CHAINED.search(before) is not None,
    }
