"""Scenarios out of histories: what was edited first, and what the commit then did elsewhere in the file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from efim_lab.next_edit.histories import ChangedFile, LineRewrite, Repository
from efim_ls.languages import language_of
from efim_ls.next_edit.templates.template import Rewritten, Template, occurrences, template_of
from efim_ls.next_edit.tokens import TokenChange, is_name, token_change, tokens
from efim_ls.text.document import Document

Kind = Literal["three", "two", "rename", "one", "transform", "pair"]
ENDINGS = (".py", ".ts", ".tsx", ".go", ".rs")
MOST_TRIED = 5  # lines below one of which a template is learned with it
MOST_OF_A_COMMIT = 10  # scenarios of one kind, so that no commit decides alone


class EditScenario(NamedTuple):
    """A text, what is edited in it first, and what each other line that the commit changed alike becomes.

    `three`: the commit made a change of tokens on three lines or more, and two were edited. `two`: on exactly two,
    and the old tokens stay elsewhere; nothing should be offered. `rename`: it replaced one name by another on three
    lines or more, and one was edited. `one`: on exactly one line, and the old name stays elsewhere. `transform`: one
    template, learned from two changes of tokens that differ, makes a third line, too, what the commit made of it, and
    these two were edited. `pair`: it makes none, and matches a line that the commit left as it was.
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
        templates = list(_templates(changed.rewrites))
        text = repository.text(changed.blob) if groups or templates else None
        if text is None:
            continue
        if changed.commit != commit:
            commit, counts = changed.commit, {}
        found = [
            _scenario(kind, changed, text, *group) for group in groups for kind in kinds(group[0], len(group[1]))
        ]
        found += [_of_template(changed, text, *each) for each in templates]
        for scenario in filter(None, found):
            counts[scenario.kind] = counts.get(scenario.kind, 0) + 1
            if counts[scenario.kind] <= MOST_OF_A_COMMIT:
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


def _templates(rewrites: Sequence[LineRewrite]) -> Iterator[tuple[Template, list[LineRewrite]]]:
    """Yield templates of two lines each, with all lines that are what they make of them, these first."""
    left = [each for each in rewrites if not token_change(*_tokens(each)).only_blanks and each.after.strip()]
    while left:
        first, *left = left
        for second in left[:MOST_TRIED]:
            template = _template(first, second)
            if template:
                alike = [each for each in left if each != second and template.explaining(_tokens(each))]
                yield template, [first, second, *alike]
                left = [each for each in left if each != second and each not in alike]
                break


def _template(one: LineRewrite, other: LineRewrite) -> Template | None:
    """Return the template of two lines, unless the same tokens were changed in both."""
    pairs = {token_change(*_tokens(each)).pair for each in (one, other)}
    return template_of(_tokens(one), _tokens(other)) if len(pairs) == 2 else None


def _tokens(rewrite: LineRewrite) -> Rewritten:
    return Rewritten(tokens(rewrite.before), tokens(rewrite.after))


def _of_template(
    changed: ChangedFile, text: str, template: Template, alike: Sequence[LineRewrite]
) -> EditScenario | None:
    lines = text.split("\n")
    if any(each.line >= len(lines) or lines[each.line] != each.before for each in alike):
        return None
    language, edited = language_of(changed.path), {each.line for each in alike}
    matched = {each.line for each in occurrences(template, Document("", language, text), 0)}
    if len(alike) == 2 and matched <= edited:
        return None
    rest = {each.line: each.after for each in alike[2:]}
    kind = "transform" if rest else "pair"
    return EditScenario(kind, language, changed.path, changed.commit, text, tuple(alike[:2]), rest)


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
