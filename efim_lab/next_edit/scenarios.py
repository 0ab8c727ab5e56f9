"""Scenarios out of histories: what was edited first, and what the commit then did elsewhere in the file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from efim_lab.next_edit.histories import ChangedFile, LineRewrite, Repository
from efim_ls.languages import language_of
from efim_ls.next_edit.tokens import TokenChange, is_name, token_change, tokens

Kind = Literal["three", "two", "rename", "one"]
ENDINGS = (".py", ".ts", ".tsx", ".go", ".rs")
MOST_OF_A_COMMIT = 10  # scenarios of one kind, so that no commit decides alone


class EditScenario(NamedTuple):
    """A text, what is edited in it first, and what each other line that the commit changed alike becomes.

    `three`: the commit made a change of tokens on three lines or more, and two were edited. `two`: on exactly two,
    and the old tokens stay elsewhere; nothing should be offered. `rename`: it replaced one name by another on three
    lines or more, and one was edited. `one`: on exactly one line, and the old name stays elsewhere.
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
    commit, counts = "", dict[Kind, int]()
    for changed in repository.changed_files(ENDINGS, most_commits):
        groups = [(change, alike) for change, alike in _groups(changed) if kinds(change, len(alike))]
        text = repository.text(changed.blob) if groups else None
        if text is None:
            continue
        if changed.commit != commit:
            commit, counts = changed.commit, {}
        for change, alike in groups:
            for kind in kinds(change, len(alike)):
                scenario = _scenario(kind, changed, text, change, alike)
                if scenario is not None and counts.get(kind, 0) < MOST_OF_A_COMMIT:
                    counts[kind] = counts.get(kind, 0) + 1
                    yield scenario


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


def _scenario(
    kind: Kind, changed: ChangedFile, text: str, change: TokenChange, alike: Sequence[LineRewrite]
) -> EditScenario | None:
    lines = text.split("\n")
    if any(each.line >= len(lines) or lines[each.line] != each.before for each in alike):
        return None
    edited = 2 if kind in ("three", "two") else 1
    rest = {each.line: each.after for each in alike[edited:]}
    if kind in ("two", "one") and not _stays_elsewhere(lines, change, {each.line for each in alike}):
        return None
    language = language_of(changed.path)
    return EditScenario(kind, language, changed.path, changed.commit, text, tuple(alike[:edited]), rest)


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
