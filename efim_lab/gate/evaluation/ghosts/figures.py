"""The figures of ghosts: how often one appears, how many are wrong, and for how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from efim_lab.gate.evaluation.figures.intervals import Estimate
from efim_lab.gate.evaluation.ghosts.counting import Ghost, ghosts, kind_shown
from efim_lab.gate.evaluation.typist.figures import estimate
from efim_lab.gate.evaluation.typist.keys import TypedKey
from efim_lab.gate.evaluation.typist.levels import LEVELS, at_level
from efim_ls.completion.suggestions.place_kind import KINDS


@dataclass(frozen=True)
class CountedLine:
    """A typed line of a file: the places of its keys and its ghosts, or a selection of them."""

    file: str
    keys: Sequence[TypedKey]
    ghosts: Sequence[Ghost]


@dataclass(frozen=True)
class GhostFigures:
    """Figures of ghosts; 95 % intervals come from a bootstrap over files, and figures of nothing are None.

    Of a key: how many ghosts (`new`) and wrong ghosts (`new_wrong`) appear before it, and the share of keys that show
    a wrong text (`under_wrong`). Of the ghosts, the shares that are `right`, `begins` and `wrong`, have a `single`
    character or `several` lines with text, and turn the word at the cursor into a word that stands nowhere
    (`unknown_word`). Of ghosts with several lines, and of ghosts with an unknown word, the share right to the end
    (`several_right`, `unknown_right`). Of wrong ghosts, the median number of keys that show one (`wrong_keys`), and
    the share shown before a single key (`wrong_once`).
    """

    keys: int
    ghosts: int
    new: Estimate | None
    new_wrong: Estimate | None
    under_wrong: Estimate | None
    right: Estimate | None
    begins: Estimate | None
    wrong: Estimate | None
    single: Estimate | None
    several: Estimate | None
    several_right: Estimate | None
    unknown_word: Estimate | None
    unknown_right: Estimate | None
    wrong_keys: float | None
    wrong_once: Estimate | None


@dataclass(frozen=True)
class GhostArm:
    """One source's figures, by the place where ghosts appear, and by level of `suggestions`."""

    all: GhostFigures
    places: Mapping[str, GhostFigures]
    levels: Mapping[float, GhostFigures]


def ghost_arms(lines: Sequence[Sequence[TypedKey]]) -> dict[str, GhostArm]:
    """Return the figures of typed lines by arm."""
    arms = defaultdict[str, list[Sequence[TypedKey]]](list)
    for line in lines:
        arms[line[0].arm].append(line)
    return {arm: _arm(found) for arm, found in arms.items()}


def figures(lines: Sequence[CountedLine]) -> GhostFigures:
    """Score ghosts; a line without any counts with its keys."""
    wrong = [(line.file, each) for line in lines for each in line.ghosts if each.kind == "wrong"]

    def of_keys(count: Callable[[Ghost], int]) -> Estimate | None:
        return estimate([(line.file, sum(map(count, line.ghosts)), len(line.keys)) for line in lines])

    def share(has: Callable[[Ghost], bool], of: Callable[[Ghost], bool] = lambda _: True) -> Estimate | None:
        return estimate([(line.file, has(each), 1) for line in lines for each in line.ghosts if of(each)])

    return GhostFigures(
        keys=sum(len(line.keys) for line in lines),
        ghosts=sum(len(line.ghosts) for line in lines),
        new=of_keys(lambda _: 1),
        new_wrong=of_keys(_is_wrong),
        under_wrong=estimate([(line.file, sum(map(_shows_wrong, line.keys)), len(line.keys)) for line in lines]),
        right=share(_is_right),
        begins=share(lambda each: each.kind == "begins"),
        wrong=share(_is_wrong),
        single=share(lambda each: len(each.text) == 1),
        several=share(lambda each: each.has_several_lines),
        several_right=share(_is_right, lambda each: each.has_several_lines),
        unknown_word=share(lambda each: each.makes_unknown_word),
        unknown_right=share(_is_right, lambda each: each.makes_unknown_word),
        wrong_keys=median(len(each.keys) for _, each in wrong) if wrong else None,
        wrong_once=estimate([(file, len(each.keys) == 1, 1) for file, each in wrong]),
    )


def _arm(lines: Sequence[Sequence[TypedKey]]) -> GhostArm:
    counted = [_counted(line) for line in lines]
    levels = LEVELS if any(key.words for line in lines for key in line) else ()
    return GhostArm(
        all=figures(counted),
        places={place: figures([_at(line, place) for line in counted]) for place in KINDS},
        levels={
            least: figures([_counted([at_level(key, least) for key in line]) for line in lines]) for least in levels
        },
    )


def _counted(line: Sequence[TypedKey]) -> CountedLine:
    return CountedLine(line[0].file, line, ghosts(line))


def _at(line: CountedLine, place: str) -> CountedLine:
    """Return the keys at a place, and the ghosts that appear there; these stand before other keys as well."""
    keys = [key for key in line.keys if key.place == place]
    return CountedLine(line.file, keys, [each for each in line.ghosts if each.keys[0].place == place])


def _shows_wrong(key: TypedKey) -> bool:
    return bool(key.shown) and kind_shown(key) == "wrong"


def _is_right(ghost: Ghost) -> bool:
    return ghost.kind == "right"


def _is_wrong(ghost: Ghost) -> bool:
    return ghost.kind == "wrong"
