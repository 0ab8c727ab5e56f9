"""The rule *signature*: calls are offered to follow a definition whose parameters were changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from math import log1p
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.changes import LineChange, is_being_typed
from efim_ls.next_edit.import_lines import import_statements
from efim_ls.next_edit.pattern import Occurrence, outwards, whole_words
from efim_ls.next_edit.situation import Candidate, Situation
from efim_ls.next_edit.syntax.calls import Call, ParameterChange, Step, argument, calls, changed_parameter, followed
from efim_ls.next_edit.syntax.definitions import ChangedDefinition, changed_definition
from efim_ls.next_edit.syntax.scope import is_bound, is_prose
from efim_ls.next_edit.tokens import TokenChange, tokens
from efim_ls.text.document import Document, PastEdit
from efim_ls.text.lines import enclosing_line, line_start

MOST_KINDS = 8  # of changed tokens, the last ones, whose last and first changes may be of definitions
MOST_PARSED, MOST_OFFERED = 3, 2  # calls whose surroundings are parsed; that are offered
LITERAL = re.compile(r"-?\d[\w.]*|\"[^\"]*\"|'[^']*'|None|True|False|nil|null|undefined|true|false")
OWN = re.compile(r"\b(?:self|this|Self)(?:\.|::)\w+\W*\($")
CHAINED = re.compile(r"(?:[)\]]|\.\w+)\.\w+\W*\($")
RECEIVER = re.compile(r"(?<![\w.])(\w+)\.\w+\W*\($")


class Changed(NamedTuple):
    """A definition, with the changes of its line and of its parameters."""

    change: LineChange
    definition: ChangedDefinition
    what: ParameterChange


class Following(NamedTuple):
    """A definition that calls should follow, as one file calls it, and the argument for a new parameter.

    `line` is the definition's, and `change` the change of its line. `followed`: the last edit was of a call,
    which passes `example`. `known_as` is the name by which another file knows it.
    """

    change: LineChange
    definition: ChangedDefinition
    what: ParameterChange
    line: int
    passed: str
    example: str
    followed: bool
    because: tuple[PastEdit, ...]
    known_as: str = ""

    def elsewhere(self, text: str, module: str) -> Following:
        """Return what another file's calls should follow; they count as standing below the definition."""
        known_as = re.match(r"\w*", module or self.definition.imported)
        definition = self.definition.elsewhere(text, module)
        name = known_as[0] if known_as and definition.called != "as member" else ""
        return self._replace(definition=definition, line=-1, known_as=name)


def signature(situation: Situation) -> Sequence[Candidate]:
    """Return the calls that should follow a definition which was changed, the nearest first.

    The last change is of the definition, of one of its calls, of a name that it replaced, or of another definition
    whose new parameter is passed on.
    """
    document, cursor, changes, *_ = situation
    if is_being_typed(changes[-1].because[-1], cursor):
        return ()
    candidates = list[Candidate]()
    for each in _following(document, changes[-1], document, changed_definitions(document, changes)):
        done = {change.line for change in changes[changes.index(each.change) :]}
        candidates += islice(following_calls(document, cursor, each, done), MOST_OFFERED)
    return candidates


def changed_definitions(document: Document, changes: Sequence[LineChange]) -> Sequence[Changed]:
    """Return the definitions of a document that were changed last, the very last one first."""
    found = list[Changed]()
    for each in _recent(changes):
        definition = changed_definition(document, each)
        if definition and (what := changed_parameter(definition)):
            found.append(Changed(each, definition, what))
    return found


def following(edited: Document, last: LineChange, document: Document, changed: Sequence[Changed]) -> Following | None:
    """Return which definition of a document other files should follow after the last change, which may be theirs."""
    found = _following(edited, last, document, changed)
    return next((each for each in found if each.definition.visible == (0, len(document.text))), None)


def following_calls(
    document: Document, cursor: int, following: Following, done: Collection[int]
) -> Iterator[Candidate]:
    """Yield the calls in a document that should follow a definition, nearest first, without lines that are done."""
    _, definition, what, line, passed, example, goes_on, because, known_as = following
    if what.new and what.new.optional and not what.old and not example:
        return
    waiting = [each for each in calls(document, cursor, definition) if each.line not in done]
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
        "followed": goes_on,
        "example": bool(example) and passed == example,
    }
    for call, step in steps[:MOST_PARSED]:
        at, variable = call.start - 1, step.variable
        bound = not variable or LITERAL.fullmatch(variable) is not None or is_bound(document, at, variable)
        if not bound or is_prose(document, at) or _is_another(document, call, definition, known_as):
            continue
        yield Candidate(_place(document, call, step), features | _of_call(call, line, document), because)


def _following(
    edited: Document, last: LineChange, document: Document, changed: Sequence[Changed]
) -> Iterator[Following]:
    """Yield the definitions of a document that calls should follow after the last change, of the document edited."""
    for change, definition, what in changed:
        passed, example, of_calls = what.new.name if what.new else "", "", list[Call]()
        if change != last:
            as_called = definition if edited is document else definition.anywhere(edited.text)
            start, end = as_called.visible
            line = max(start, last.start), min(end, enclosing_line(edited.text, last.start)[1])
            of_calls = list(calls(edited, last.start, as_called._replace(visible=line)))
            passes_on = changed[0].change == last and what.old is None and what.new == changed[0].what.new
            renamed = what.old is not None and last.change.pair == ((what.old.name,), (passed,))
            if not (of_calls or passes_on or renamed):
                continue
            if of_calls and what.new and what.old is None:
                example = argument(of_calls[0], what.number, what.new.name, edited.language)
                passed = example if example.isidentifier() or LITERAL.fullmatch(example) else passed
        because = change.because if change == last else (*change.because, *last.because)
        yield Following(change, definition, what, change.line, passed, example, bool(of_calls), because)


def _recent(changes: Sequence[LineChange]) -> Sequence[LineChange]:
    """Return the last changes, of which some may be definitions, the very last one first."""
    alike = dict[object, list[LineChange]]()
    for each in reversed(changes):
        alike.setdefault(each.change.pair, []).append(each)
    groups = list(alike.values())[:MOST_KINDS]
    return [each for group in groups for each in (group[0], *group[1:][-1:])]


def _is_another(document: Document, call: Call, definition: ChangedDefinition, known_as: str) -> bool:
    """Return whether a call is of something else: a variable, or a member of a module that the file imports."""
    if known_as:
        return is_bound(document, call.start - 1, known_as)
    before = document.text[line_start(document.text, call.start) : call.start]
    receiver = RECEIVER.search(before)
    if definition.called != "as member" or LANGUAGES[document.language].calls.by_path:
        return False
    if receiver is None or receiver[1] == definition.owner:
        return False
    name, imported = re.compile(whole_words(receiver[1])), import_statements(document)
    return any(name.search(document.text, *each.bound) for each in imported)


def _place(document: Document, call: Call, step: Step) -> Occurrence:
    """Return a step as a change of tokens that begins at the parenthesis, or at the line if that is above it."""
    text = document.text
    start, end, _ = enclosing_line(text, step.start)
    at = max(call.start - 1, start)
    left, right = tokens(text[start:at]), tokens(text[step.end : end])
    change = TokenChange(left, tokens(text[at : step.end]), tokens(text[at : step.start] + step.added), right)
    return Occurrence(document.line_of(at), at, step.end, outwards(left, right), 0, 0, change)


def _of_call(call: Call, line: int, document: Document) -> dict[str, float]:
    before = document.text[line_start(document.text, call.start) : call.start]
    return {
        "below": call.line > line,
        "distance": log1p(abs(call.line - line)),
        "own": OWN.search(before) is not None,
        "chained": CHAINED.search(before) is not None,
    }
