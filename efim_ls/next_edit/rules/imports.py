"""The rule *import*: a name was typed that the file lacks, and that the workspace defines once elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import log1p
from pathlib import PurePath

from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.import_lines import added_import, import_statements
from efim_ls.next_edit.pattern import Occurrence, outwards, whole_words
from efim_ls.next_edit.rules.rename import KEYWORDS, defines
from efim_ls.next_edit.situation import Candidate, Situation, in_comment
from efim_ls.next_edit.syntax.scope import is_prose, local_scope
from efim_ls.next_edit.tokens import NAME, TokenChange, is_word, tokens
from efim_ls.text.document import Document, Edit, PastEdit
from efim_ls.text.lines import enclosing_line
from efim_ls.text.outline import Importable

MOST_NAMES = 8  # of an edit that are looked for
MOST_TYPED = 1_000  # characters of an edit: longer ones were pasted, and each name is searched for in all of the text
SHORTEST = 3  # characters of a name
IMPORTS = re.compile(r"\s*(?:import|from|use|export|package)\b|\t\"")
IMPORTS_ALL = re.compile(r"^(?:from\b[^\n]*\bimport[ \t]*\*|use\b[^\n]*::\*|import\b[^\n]*\.\*;)", re.MULTILINE)
NO_USE_BEFORE = re.compile(r"(?:\.|::|->|['\"$#\\])[ \t]*$")
# Behind a name that begins a line: the type of a variable, an item of a list, the head of a method.
ALONE = re.compile(r":|,?[ \t]*$|\([^()]*\)[^()]*\{$")


def imports(situation: Situation) -> Sequence[Candidate]:
    """Return the imports that the names in the last edit need and the document lacks."""
    document, last = situation.document, situation.edits[-1]
    known = {each.module for each in import_statements(document)}
    uses = {document.text[start:end]: (start, end) for start, end in _uses(document, last, situation.cursor)}
    found = list[Candidate]()
    for each in situation.importable:
        name = each.name or PurePath(each.module).name
        start, end = uses.get(name, (-1, -1))
        if start < 0 or is_prose(document, start) or local_scope(document, start, {name}):
            continue
        if edit := added_import(document, each):
            features = _features(document, each, name, end) | {"known module": each.module in known}
            found.append(Candidate(_place(document, edit), features, (last,)))
    return found


def unknown_names(document: Document, edit: PastEdit, cursor: int) -> list[str]:
    """Return the names that an edit uses and the document has nowhere else, without the one at the cursor."""
    text = document.text
    if len(edit.added) > MOST_TYPED or IMPORTS_ALL.search(text):
        return []
    names = list[str]()
    low, high = _span(text, edit)
    for start, end in _uses(document, edit, cursor):
        name = re.compile(whole_words(text[start:end]))
        if not name.search(text, 0, low) and not name.search(text, high):
            names.append(text[start:end])
    return list(dict.fromkeys(names))[:MOST_NAMES]


def _uses(document: Document, edit: PastEdit, cursor: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each name in an edit that another file may define."""
    text, language = document.text, LANGUAGES[document.language]
    if (form := language.imports) is None:
        return
    low, high = _span(text, edit)
    for name in NAME.finditer(text, low, high):
        start, end = name.span()
        if end == cursor or end - start < SHORTEST or name[0] in KEYWORDS or name[0] in language.words.built_in:
            continue
        line, line_end, _ = enclosing_line(text, start)
        left, right = text[line:start], text[end:line_end]
        if IMPORTS.match(left) or NO_USE_BEFORE.search(left) or form.bound.match(right):
            continue
        before = tokens(left)
        if in_comment(before, document.language) or (not left.strip() and ALONE.match(right)):
            continue
        if form.modules == "package paths":
            may_be_elsewhere = right.startswith(".")
        else:
            may_be_elsewhere = not defines(*outwards(before, tokens(right)))
        if may_be_elsewhere:
            yield start, end


def _span(text: str, edit: PastEdit) -> tuple[int, int]:
    """Return the start and end of what an edit added, widened to whole words; 0 and 0 if the text has changed."""
    low, high = edit.at, edit.at + len(edit.added)
    if text[low:high] != edit.added or not edit.added:
        return 0, 0
    while low and is_word(text[low - 1]):
        low -= 1
    while high < len(text) and is_word(text[high]):
        high += 1
    return low, high


def _features(document: Document, importable: Importable, name: str, end: int) -> dict[str, float]:
    return {
        "importers": log1p(importable.importers),
        "by place": not importable.importers,
        "length": log1p(len(name)),
        "capital": name[0].isupper(),
        "called": document.text.startswith("(", end),
        "member": document.text.startswith((".", "::"), end),
    }


def _place(document: Document, edit: Edit) -> Occurrence:
    """Return an edit of one line as a place in it."""
    start, end, _ = enclosing_line(document.text, edit.at)
    left = tokens(document.text[start : edit.at])
    right = tokens(document.text[edit.at + len(edit.removed) : end])
    around = TokenChange(left, tokens(edit.removed), tokens(edit.added), right)
    return Occurrence(
        document.line_of(edit.at), edit.at, edit.at + len(edit.removed), outwards(left, right), 0, 0, around
    )
