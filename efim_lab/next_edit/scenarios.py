"""Scenarios out of histories: what was edited first, and what the commit then did elsewhere in the file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from efim_lab.next_edit.histories import ChangedFile, LineRewrite, Repository
from efim_lab.next_edit.signatures import changed_signatures
from efim_ls.languages import language_of
from efim_ls.next_edit.tokens import TokenChange, is_name, token_change, tokens

Kind = Literal["three", "two", "rename", "one", "signature", "definition"]
ENDINGS = (".py", ".ts", ".tsx", ".go", ".rs")
MOST_OF_A_COMMIT = 10  # scenarios of one kind, so that no commit decides alone


class EditScenario(NamedTuple):
    """A text, what is edited in it first, and what each other line that the commit changed alike becomes.

    `three`: the commit made a change of tokens on three lines or more, and two were edited. `two`: on exactly two,
    and the old tokens stay elsewhere; nothing should be offered. `rename`: it replaced one name by another on three
    lines or more, and one was edited. `one`: on exactly one line, and the old name stays elsewhere. `signature`: it
    changed parameters of a definition, which was edited, and arguments of its calls. `definition`: it left all of
    its calls as they are; nothing should be offered.
    """

    kind: Kind
    language: str
    path: str
    commit: str
    text: str
    first: tuple[LineRewrite, ...]
    then: Mapping[int, str]


def scenarios(repository: Repository, most_commits: int) -> Iterator[EditScenario]:
    """Yield those of a repository's last commits."""
    commit, counts = "", Counter[Kind]()
    with repository.texts() as text_of:
        for changed in repository.changed_files(ENDINGS, most_commits):
            if changed.commit != commit:
                commit, counts = changed.commit, Counter[Kind]()
            text = text_of(changed.blob)
            for scenario in _of_file(changed, text) if text is not None else ():
                if counts[scenario.kind] < MOST_OF_A_COMMIT:
                    counts[scenario.kind] += 1
                    yield scenario


def _of_file(changed: ChangedFile, text: str) -> Iterator[EditScenario]:
    lines = text.split("\n")
    if any(each.line >= len(lines) or lines[each.line] != each.before for each in changed.rewrites):
        return
    language = language_of(changed.path)
    for change, alike in _groups(changed):
        for kind in kinds(change, len(alike)):
            edited = 2 if kind in ("three", "two") else 1
            rest = {each.line: each.after for each in alike[edited:]}
            if kind in ("two", "one") and not _stays_elsewhere(lines, change, {each.line for each in alike}):
                continue
            yield EditScenario(kind, language, changed.path, changed.commit, text, tuple(alike[:edited]), rest)
    for definition, calls in changed_signatures(changed, text):
        kind = "signature" if calls else "definition"
        yield EditScenario(kind, language, changed.path, changed.commit, text, (definition,), calls)


def _groups(changed: ChangedFile) -> Sequence[tuple[TokenChange, list[LineRewrite]]]:
    """Group rewritten lines by their change of tokens; what only moves blanks is left out."""
    found = defaultdict[tuple[object, object], list[tuple[TokenChange, LineRewrite]]](list)
    for rewrite in changed.rewrites:
        change = token_change(tokens(rewrite.before), tokens(rewrite.after))
        if not change.only_blanks:
            found[change.pair].append((change, rewrite))
    return [(each[0][0], [rewrite for _, rewrite in each]) for each in found.values()]


def kinds(change: TokenChange, lines: int) -> tuple[Kind, ...]:
    """Return which scenarios a change of tokens on so many lines may be."""
    renames = all(len(side) == 1 and is_name(side[0]) for side in change.pair)
    if lines >= 3:
        return ("three", "rename") if renames else ("three",)
    if lines == 2:
        return ("two",)
    return ("one",) if renames else ()


def _stays_elsewhere(lines: Sequence[str], change: TokenChange, edited: set[int]) -> bool:
    """Return whether another line has the old tokens; for an insertion, its neighbours side by side."""
    old = change.removed or (*change.left[-1:], *change.right[:1])
    piece = "".join(old)
    for number, line in enumerate(lines):
        if number not in edited and piece in line:
            words = tokens(line)
            if any(words[i : i + len(old)] == old for i in range(len(words))):
                return True
    return False
