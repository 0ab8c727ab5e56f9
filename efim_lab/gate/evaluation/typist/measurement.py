"""Types held-out lines with the server and the heuristic: alone, with other files open, with the repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.figures.intervals import Estimate
from efim_lab.gate.evaluation.held_out import Progress, model_name
from efim_lab.gate.evaluation.measured_model import load_completer
from efim_lab.gate.evaluation.typist.cursor_kinds import KINDS
from efim_lab.gate.evaluation.typist.figures import TypistFigures, VisitedLine, figures, saved_more
from efim_lab.gate.evaluation.typist.keys import Ask, TypedKey, ask_heuristic, asking, type_line
from efim_lab.gate.evaluation.typist.known_words import WorkspaceWords
from efim_lab.gate.evaluation.typist.levels import figures_by_level
from efim_lab.gate.evaluation.typist.lines import TypedLine, choose_lines, nearest_open, with_plain_line_ends
from efim_lab.gate.evaluation.typist.typists import TYPISTS, Visit, visits
from efim_lab.gate.evaluation.typist.whole_files import (
    RestOfLine,
    WholeFileFigures,
    draw_cursors,
    whole_file_differences,
    whole_file_figures,
)
from efim_lab.gate.package_counts import PackageCounts
from efim_ls.completion.completer import Completer
from efim_ls.workspace.modules.environment import find_environment
from efim_ls.workspace.modules.table import ModuleTable

SERVER, HEURISTIC = "server", "heuristic"
REPOSITORY = f"{SERVER}, repository"  # it counts the package's other files, too


@dataclass(frozen=True)
class TypingOptions:
    """The most lines to type, and how many other files are open, one run for each number.

    With `only_typing` nothing is asked for at random places in whole files.
    """

    typed: int = 150
    opened: tuple[int, ...] = (0, 4)
    only_typing: bool = False


@dataclass(frozen=True)
class TypedArm:
    """The figures of one source of suggestions by typist, and by where the cursor is, by language and by level.

    `levels` are numbers of the setting `suggestions`, for suggestions that say how likely they are.
    """

    typists: Mapping[str, TypistFigures]
    kinds: Mapping[str, Mapping[str, TypistFigures]]
    languages: Mapping[str, Mapping[str, TypistFigures]]
    levels: Mapping[float, Mapping[str, TypistFigures]]


@dataclass(frozen=True)
class RepositoryGain:
    """The gain of an arm that knows the repository over an arm that does not, paired: keys saved by typist, lines."""

    saved: Mapping[str, Estimate | None]
    whole_files: WholeFileFigures


@dataclass(frozen=True)
class TypingReport:
    """A model's figures by arm: of typed lines, and of `places` in whole files.

    `saved_more` are the shares of keys that the server saves less the heuristic's shares, by arm and typist, paired.
    `gains` compares each arm that knows the repository with each of the server's arms that do not.
    """

    model: str
    lines: int
    files: int
    keys: int
    arms: Mapping[str, TypedArm]
    saved_more: Mapping[str, Mapping[str, Estimate | None]]
    places: int
    whole_files: Mapping[str, WholeFileFigures]
    gains: Mapping[str, Mapping[str, RepositoryGain]]


@dataclass(frozen=True)
class SuggestionSource:
    """What suggests while `open` other files are open: `ask` as an editor asks, `ask_all` with nothing held back."""

    name: str
    open: int
    ask: Ask
    ask_all: Ask

    @property
    def arm(self) -> str:
        """Its name in reports."""
        return arm_name(self.name, self.open)

    @property
    def knows_package(self) -> bool:
        """Whether it knows the other files of the line's package that are not open."""
        return self.name == REPOSITORY

    def others(self, nearest: tuple[CodeDocument, ...]) -> tuple[CodeDocument, ...]:
        """Return the open ones of the nearest files, which come last."""
        return nearest[len(nearest) - min(self.open, len(nearest)) :]


def arm_name(source: str, opened: int) -> str:
    """Return the name of a source with this many other files open."""
    return f"{source}, {opened} files open" if opened else source


def measure(
    folder: Path, documents: Sequence[CodeDocument], count: int, options: TypingOptions, progress: Progress
) -> tuple[TypingReport, list[Sequence[TypedKey]]]:
    """Ask at up to `count` places in whole files and type the lines of the first of them; return their keys as well.

    Raises WorkError if the documents have no line to type, ModelError if the model cannot be loaded.
    """
    documents = [with_plain_line_ends(each) for each in documents]
    lines, name = choose_lines(documents, options.typed if options.only_typing else count), model_name(folder)
    if not lines:
        raise WorkError("the data has no line of at most 200 characters: name a heldout.jsonl or a folder of code")
    (completer, memories), words = load_completer(folder, documents), WorkspaceWords(documents)
    sources = _sources(completer, memories, options.opened)
    nearest = [nearest_open(line, documents, max(options.opened)) for line in lines]
    asked = [] if options.only_typing else lines
    places = _ask_everywhere(
        sources, asked, nearest, lambda done: progress(f"{name}, in whole files", done, len(asked))
    )
    typed = lines[: options.typed]
    keys = _type(sources, typed, nearest, words, lambda done: progress(f"{name}, typed", done, len(typed)))
    completer.close(0)
    return report(name, keys, places), [line for lines in keys.values() for line in lines]


def report(
    name: str,
    keys: Mapping[str, Sequence[Sequence[TypedKey]]],
    places: Mapping[str, Sequence[RestOfLine]],
) -> TypingReport:
    """Score the keys of typed lines and suggestions at places, given by arm; every arm has the same lines."""
    visited = {
        arm: {
            typist: [VisitedLine(line[0].file, visits(line, each)) for line in lines]
            for typist, each in TYPISTS.items()
        }
        for arm, lines in keys.items()
    }
    first = next(iter(keys.values()))
    return TypingReport(
        model=name,
        lines=len({(key.file, key.line) for line in first for key in line}),
        files=len({line[0].file for line in first}),
        keys=sum(map(len, first)),
        arms={arm: _arm(found, keys[arm]) for arm, found in visited.items()},
        saved_more={
            arm: {typist: saved_more(visited[arm][typist], visited[rival][typist]) for typist in TYPISTS}
            for arm in keys
            if arm.startswith(SERVER) and (rival := arm.replace(SERVER, HEURISTIC, 1)) in keys
        },
        places=len(next(iter(places.values()))),
        whole_files={arm: whole_file_figures(found) for arm, found in places.items()},
        gains={
            arm: {
                rival: RepositoryGain(
                    {typist: saved_more(visited[arm][typist], visited[rival][typist]) for typist in TYPISTS},
                    whole_file_differences(places[arm], places[rival]),
                )
                for rival in keys
                if rival.startswith(SERVER) and not rival.startswith(REPOSITORY)
            }
            for arm in keys
            if arm.startswith(REPOSITORY)
        },
    )


def _sources(completer: Completer, memories: PackageCounts, opened: Sequence[int]) -> list[SuggestionSource]:
    """Return the sources for each number of open files; each asks for separate documents."""
    found, modules = list[SuggestionSource](), ModuleTable(partial(find_environment, ()))
    for files in dict.fromkeys(opened):
        found.append(SuggestionSource(HEURISTIC, files, ask_heuristic, ask_heuristic))
        for name, known in ((SERVER, None), (REPOSITORY, memories)):
            typed, whole = (f"{arm_name(name, files)}/{place}".replace(" ", "-") for place in ("typed", "whole"))
            ask = asking(completer, "balanced", typed, known, modules)
            ask_all = asking(completer, 0, whole, known, modules)
            found.append(SuggestionSource(name, files, ask, ask_all))
    return found


def _arm(visited: Mapping[str, Sequence[VisitedLine]], keys: Sequence[Sequence[TypedKey]]) -> TypedArm:
    def selected(chosen: Callable[[Visit], bool]) -> dict[str, TypistFigures]:
        return {typist: figures([_selection(line, chosen) for line in lines]) for typist, lines in visited.items()}

    languages = sorted({visit.key.language for lines in visited.values() for line in lines for visit in line.visits})
    return TypedArm(
        typists={typist: figures(lines) for typist, lines in visited.items()},
        kinds={kind: selected(lambda each, kind=kind: each.key.kind == kind) for kind in KINDS},
        languages={
            language: selected(lambda each, language=language: each.key.language == language)
            for language in languages
        },
        levels=figures_by_level(keys),
    )


def _selection(line: VisitedLine, chosen: Callable[[Visit], bool]) -> VisitedLine:
    return replace(line, visits=[visit for visit in line.visits if chosen(visit)])


def _ask_everywhere(
    sources: Sequence[SuggestionSource],
    lines: Sequence[TypedLine],
    nearest: Sequence[tuple[CodeDocument, ...]],
    progress: Callable[[int], None],
) -> dict[str, list[RestOfLine]]:
    """Return, by arm, the first line of the suggestion at a random cursor in each line."""
    found = {source.arm: list[RestOfLine]() for source in sources}
    cursors = draw_cursors(lines)
    for done, (line, cursor) in enumerate(zip(lines, cursors, strict=True)):
        progress(done)
        for source in sources:
            answer = source.ask_all(line, cursor, source.others(nearest[done]))
            found[source.arm].append(RestOfLine(line, cursor, answer.text.split("\n")[0]))
    progress(len(lines))
    return found


def _type(
    sources: Sequence[SuggestionSource],
    lines: Sequence[TypedLine],
    nearest: Sequence[tuple[CodeDocument, ...]],
    words: WorkspaceWords,
    progress: Callable[[int], None],
) -> dict[str, list[list[TypedKey]]]:
    """Type each line with each source; return the keys by arm and line."""
    found = {source.arm: list[list[TypedKey]]() for source in sources}
    for done, line in enumerate(lines):
        progress(done)
        for source in sources:
            others = source.others(nearest[done])
            elsewhere = words.beside(line.document) if source.knows_package else words.in_any(others)
            found[source.arm].append(type_line(source.arm, line, others, source.ask, elsewhere))
    progress(len(lines))
    return found
