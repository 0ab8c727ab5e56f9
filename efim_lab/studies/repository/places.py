"""Chooses the places that a repository is measured at: first uses of its names, lines by class, and chunks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from typing import Literal

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.typist.lines import LONGEST_TYPED, in_turn, shuffled_packages
from efim_lab.studies.repository.project_names import (
    ProjectModules,
    defined_names,
    definition_places,
    project_uses,
)
from efim_lab.studies.repository.syntax import PythonSource

PlaceKind = Literal["first use", "inproject", "infile", "common", "chunk"]
KINDS: tuple[PlaceKind, ...] = ("first use", "inproject", "infile", "common", "chunk")
LINES_ABOVE = 10  # lines of code above a first use, imports apart (CrossCodeEval, arXiv 2310.11248)
FEWEST_TOKENS, MOST_TOKENS = 3, 30  # of Python in the target of a first use
MEAN_CHUNK = 3.0  # lines of a chunk, before empty chunks get a line (Repoformer, arXiv 2403.10059)


@dataclass(frozen=True)
class RepositoryPlace:
    r"""A cursor in a document and the `target` that was taken out there: up to a line's end, or several lines.

    Lines of the document end in \n.
    """

    kind: PlaceKind
    document: CodeDocument
    cursor: int
    target: str

    @property
    def text(self) -> str:
        """The document without the target."""
        return self.text_at(0)

    @property
    def lines(self) -> int:
        """The number of the target's lines."""
        return self.target.count("\n") + 1

    def text_at(self, typed: int) -> str:
        """Return the document with this many characters of the target."""
        whole, end = self.document.text, self.cursor + len(self.target)
        return whole[: self.cursor + typed] + whole[end:]


Finder = Callable[[PythonSource, "Project", random.Random], Iterator[RepositoryPlace]]


class Project:
    """The readable files of one repository."""

    def __init__(self, documents: Sequence[CodeDocument]) -> None:
        """Take its documents; those that are not Python of this version have no places."""
        self.sources = {each.path: source for each in documents if (source := PythonSource.parse(each))}
        self.modules = ProjectModules(list(self.sources.values()))
        self._texts = [document.text for document in documents]

    def count(self, text: str) -> int:
        """Count the places where a text stands in the repository."""
        return sum(each.count(text) for each in self._texts)


def choose_places(
    repositories: Sequence[Sequence[CodeDocument]], count: int, kinds: Sequence[PlaceKind] = KINDS
) -> list[RepositoryPlace]:
    """Choose up to `count` places of each kind; determined by the documents, fewer are the first of more.

    Repositories take turns, and so do the files of each.
    """
    projects = [Project(documents) for documents in repositories]
    return [place for kind in kinds for place in islice(_of_kind(kind, projects), count)]


def _of_kind(kind: PlaceKind, projects: Sequence[Project]) -> Iterator[RepositoryPlace]:
    return in_turn([in_turn(_by_file(kind, project)) for project in projects])


def _by_file(kind: PlaceKind, project: Project) -> list[Iterator[RepositoryPlace]]:
    documents = [source.document for source in project.sources.values()]
    shuffled = [document for files in shuffled_packages(documents, random.Random(0)) for document in files]
    return [
        FINDERS[kind](project.sources[each.path], project, random.Random(f"{kind} {each.path}")) for each in shuffled
    ]


def first_uses(source: PythonSource, project: Project, rng: random.Random) -> Iterator[RepositoryPlace]:
    """Yield the first use of each name of the project in a file, shuffled, by CrossCodeEval's rule.

    The cursor is before a random token of the line, up to the name; the rest of the line, which ends a statement or a
    compound one's header, has 3 to 30 tokens and stands nowhere else in the repository. Ten lines of code that are
    no imports stand above. A line has one place.
    """
    uses = project_uses(source, project.modules)
    firsts = {use.name: use for use in reversed(uses)}
    chosen = sorted(firsts.values(), key=lambda use: use.start)
    rng.shuffle(chosen)
    code = [row for row in source.by_row if row not in source.import_rows]
    tenth = sorted(code)[LINES_ABOVE - 1 : LINES_ABOVE]
    rows = {token.start: row for row, tokens in source.by_row.items() for token in tokens}
    left = {row for row in source.whole_rows if tenth and row > tenth[0] and _is_typed(source, row)}
    for use in chosen:
        row, draw = rows.get(use.start, -1), rng.random()  # inside of a text there are no tokens
        if row not in left:
            continue
        tokens = source.by_row[row]
        before = [at for at, token in enumerate(tokens) if token.start <= use.start]
        at = before[int(draw * len(before))]
        target = source.document.text[tokens[at].start : tokens[-1].end]
        fits = FEWEST_TOKENS <= len(tokens) - at <= MOST_TOKENS and source.line(row).rstrip().endswith(target)
        if fits and project.count(target) == 1:
            left.remove(row)
            yield RepositoryPlace("first use", source.document, tokens[at].start, target)


def lines_of(kind: PlaceKind) -> Finder:
    """Return a finder of lines of a class, shuffled: the cursor is at the line's indentation, the line the target.

    `inproject` uses a name that other files of the project define, `infile` a name that the file itself defines
    elsewhere, by name alone, and `common` neither (the classes of Long Code Arena).
    """

    def find(source: PythonSource, project: Project, rng: random.Random) -> Iterator[RepositoryPlace]:
        classes = classify_lines(source, project.modules)
        rows = [row for row, found in sorted(classes.items()) if found == kind]
        rng.shuffle(rows)
        for row in rows:
            yield _place(kind, source, row, row)

    return find


def classify_lines(source: PythonSource, modules: ProjectModules) -> dict[int, PlaceKind]:
    """Return the class of each line of code that someone types: no imports, texts or comments alone."""
    used = {use.start for use in project_uses(source, modules)}
    defined, defining = frozenset(defined_names(source.tree)), definition_places(source)
    found = dict[int, PlaceKind]()
    for row, tokens in source.by_row.items():
        names = [token for token in tokens if token.is_name]
        if not names or row in source.import_rows or not _is_typed(source, row):
            continue
        if any(token.start in used for token in names):
            found[row] = "inproject"
        elif any(token.text in defined and token.start not in defining for token in names):
            found[row] = "infile"
        else:
            found[row] = "common"
    return found


def chunks(source: PythonSource, _: Project, rng: random.Random) -> Iterator[RepositoryPlace]:
    """Yield chunks of whole lines that begin at a random line of code; their lengths are Poisson's, at least one."""
    rows = [row for row in sorted(source.by_row) if row not in source.import_rows and _is_typed(source, row)]
    rng.shuffle(rows)
    for row in rows:
        last = min(row + max(1, poisson(rng, MEAN_CHUNK)), source.rows) - 1
        while not source.line(last).strip():
            last -= 1
        yield _place("chunk", source, row, last)


def poisson(rng: random.Random, mean: float) -> int:
    """Draw a Poisson number by counting how many uniform factors keep a product above e^-mean."""
    count, product, least = 0, rng.random(), exp(-mean)
    while product > least:
        count += 1
        product *= rng.random()
    return count


def _is_typed(source: PythonSource, row: int) -> bool:
    """Return whether a line begins with a token and is short enough to be typed."""
    line, tokens = source.line(row), source.by_row[row]
    return len(line) <= LONGEST_TYPED and tokens[0].start == source.start(row) + len(line) - len(line.lstrip())


def _place(kind: PlaceKind, source: PythonSource, first: int, last: int) -> RepositoryPlace:
    """Take whole lines out, from the first one's indentation on."""
    line = source.line(first)
    start, end = source.start(first) + len(line) - len(line.lstrip()), source.end(last)
    target = source.document.text[start:end].rstrip()
    return RepositoryPlace(kind, source.document, start, target)


FINDERS: dict[PlaceKind, Finder] = {
    "first use": first_uses,
    "inproject": lines_of("inproject"),
    "infile": lines_of("infile"),
    "common": lines_of("common"),
    "chunk": chunks,
}
