"""The changes of lines that still exist, read off the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from efim_ls.next_edit.tokens import TokenChange, is_name, token_change, tokens
from efim_ls.text.document import Document, PastEdit
from efim_ls.text.lines import enclosing_line

MOST_EDITS = 24  # of a document that are looked at
AT_ONCE = 0.05  # seconds between edits that one key makes
LONGEST_LINE = 1000  # characters; longer ones are data, or made by programs


class LineChange(NamedTuple):
    """A line of the present text, from 0, whose tokens were changed by edits without one elsewhere in between."""

    line: int
    start: int
    change: TokenChange
    because: tuple[PastEdit, ...]


def by_several_cursors(changes: Sequence[LineChange]) -> bool:
    """Return whether the last two changes look as if one key had made them, in the midst of a word."""
    if len(changes) < 2:
        return False
    one, other = (each.because[-1] for each in changes[-2:])
    key = len(other.added) == 1 and not other.removed and is_name(other.added)
    return key and one.added == other.added and other.when - one.when < AT_ONCE


def is_being_typed(edit: PastEdit, cursor: int) -> bool:
    """Return whether the cursor is where keys left it: a name that was replaced in one step is whole."""
    one_key = len(edit.added) + len(edit.removed) == 1 or (len(edit.added) == 1 < len(edit.removed))
    return (edit.keys > 1 or one_key) and edit.at <= cursor <= edit.at + len(edit.added)


class _Rewrite(NamedTuple):
    """A line before and after edits, and where it began then."""

    start: int
    before: str
    after: str
    edits: tuple[PastEdit, ...]
    later: int  # how many edits were made since


def line_changes(document: Document, history: Sequence[PastEdit]) -> list[LineChange]:
    """Return the changed lines of a document, in the order in which they were edited.

    Those that were left and edited again are not among them: as long as several cursors type, all are.
    """
    edits = [edit for edit in history if edit.uri == document.uri][-MOST_EDITS:]
    rewrites = [
        (each, _moved(each.start, edits[len(edits) - each.later :])) for each in _rewrites(document.text, edits)
    ]
    times = Counter(start for _, start in rewrites)
    changes = list[LineChange]()
    for rewrite, start in rewrites:
        if start is None or times[start] > 1 or len(rewrite.before) > LONGEST_LINE:
            continue
        begins, ends, _ = enclosing_line(document.text, start)
        if begins == start and document.text[start:ends] == rewrite.after != rewrite.before:
            change = token_change(tokens(rewrite.before), tokens(rewrite.after))
            changes.append(LineChange(document.line_of(start), start, change, rewrite.edits))
    return changes[::-1]


def _rewrites(text: str, edits: Sequence[PastEdit]) -> list[_Rewrite]:
    """Undo edits, the last one first; return what each line was before and after, edits of one line joined."""
    found, joined = list[_Rewrite](), False
    for number, edit in enumerate(reversed(edits)):
        end = edit.at + len(edit.added)
        if text[edit.at : end] != edit.added:  # the history is of another text
            break
        start, line_end, _ = enclosing_line(text, edit.at)
        after = text[start:line_end]
        text = "".join((text[: edit.at], edit.removed, text[end:]))
        if any(end in side for side in (edit.removed, edit.added) for end in "\r\n"):
            joined = False
            continue
        before = text[start : line_end + len(edit.removed) - len(edit.added)]
        if joined and found[-1].start == start:
            found[-1] = found[-1]._replace(before=before, edits=(edit, *found[-1].edits))
        else:
            found.append(_Rewrite(start, before, after, (edit,), number))
        joined = True
    return found


def _moved(at: int, later: Sequence[PastEdit]) -> int | None:
    """Return where an offset is after edits; None if an edit replaced the text around it."""
    for edit in later:
        if edit.at + len(edit.removed) <= at and edit.at < at:
            at += len(edit.added) - len(edit.removed)
        elif edit.at < at:
            return None
    return at
