"""Scenarios from histories: the first edits, and the commit's other edits in the file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from efim_lab.gate.next_edit.histories import ChangedFile, LineRewrite, Repository
from efim_lab.gate.next_edit.signatures import changed_signatures
from efim_ls.languages.table import language_of
from efim_ls.next_edit.templates.template import EditTemplate, Rewritten, occurrences, template_of
from efim_ls.next_edit.tokens import TokenChange, is_name, token_change, tokens
from efim_ls.text.document import Document

Kind = Literal["three", "two", "rename", "one", "transform", "pair", "signature", "definition"]
ENDINGS = (".py", ".ts", ".tsx", ".go", ".rs")
MOST_TRIED = 5  # lines below one of which a template is learned with it
MOST_OF_A_COMMIT = 10  # scenarios of one kind, so that no commit decides alone


class EditScenario(NamedTuple):
    """A text, the first edits in it, and the commit's text for each other line that it changed alike.

    `three`: the commit made a change of tokens on three lines or more, and two were edited. `two`: on exactly two,
    and the old tokens stay elsewhere; nothing should be offered. `rename`: it replaced one name by another on three
    lines or more, and one was edited. `one`: on exactly one line, and the old name stays elsewhere. `transform`: a
    template, learned from two different changes of tokens, also turns a third line into the commit's text, and the
    two were edited. `pair`: the template turns no third line, and matches a line that the commit left as it was.
    `signature`: it changed parameters of a definition, which was edited, and arguments of its calls. `definition`: it
    left all of its calls as they are; nothing should be offered.
    """

    kind: Kind
    language: str
    path: str
    commit: str
    text: str
    first: tuple[LineRewrite, ...]
    then: Mapping[int, str]


def scenarios(repository: Repository, most_commits: int) -> Iterator[EditScenario]:
    """Yield scenarios from a repository's last commits."""
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
            if kind in ("two", "one") and not _stays_elsewhere(lines, change, changed):
                continue
            yield EditScenario(kind, language, changed.path, changed.commit, text, tuple(alike[:edited]), rest)
    for template, alike in _templates(changed.rewrites):
        if each := _of_template(changed, text, template, alike):
            yield each
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
    """Return which scenarios a change of tokens on `lines` lines may be."""
    renames = all(len(side) == 1 and is_name(side[0]) for side in change.pair)
    if lines >= 3:
        return ("three", "rename") if renames else ("three",)
    if lines == 2:
        return ("two",)
    return ("one",) if renames else ()


def _templates(rewrites: Sequence[LineRewrite]) -> Iterator[tuple[EditTemplate, list[LineRewrite]]]:
    """Yield templates of two lines each, with all lines that they rewrite as the commit did, the two first."""
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


def _template(one: LineRewrite, other: LineRewrite) -> EditTemplate | None:
    """Return the template of two lines, unless the same tokens were changed in both."""
    pairs = {token_change(*_tokens(each)).pair for each in (one, other)}
    return template_of(_tokens(one), _tokens(other)) if len(pairs) == 2 else None


def _tokens(rewrite: LineRewrite) -> Rewritten:
    return Rewritten(tokens(rewrite.before), tokens(rewrite.after))


def _of_template(
    changed: ChangedFile, text: str, template: EditTemplate, alike: Sequence[LineRewrite]
) -> EditScenario | None:
    language, edited = language_of(changed.path), {each.line for each in alike}
    matched = {each.line for each in occurrences(template, Document("", language, text), 0)}
    if len(alike) == 2 and matched <= edited:
        return None
    rest = {each.line: each.after for each in alike[2:]}
    kind = "transform" if rest else "pair"
    return EditScenario(kind, language, changed.path, changed.commit, text, tuple(alike[:2]), rest)


def _stays_elsewhere(lines: Sequence[str], change: TokenChange, changed: ChangedFile) -> bool:
    """Return whether a line has the old tokens after the commit, too; for an insertion, its neighbours side by side.

    Lines that the commit changed otherwise are left out: it is unknown how the tokens there would have changed.
    """
    old = change.removed or (*change.left[-1:], *change.right[:1])
    piece, then = "".join(old), {each.line: each.after for each in changed.rewrites}
    for number, before in enumerate(lines):
        line = then.get(number, before)
        if number not in changed.others and piece in line:
            words = tokens(line)
            if any(words[i : i + len(old)] == old for i in range(len(words))):
                return True
    return False
