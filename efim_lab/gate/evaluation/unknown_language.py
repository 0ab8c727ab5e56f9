"""Measures suggestions in a language that the model does not know: phrases of file and repository, and the model."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.figures.intervals import Estimate, mean, proportion
from efim_lab.gate.evaluation.held_out import Progress, model_name
from efim_lab.gate.evaluation.places.cursors import line_at, shuffled_lines
from efim_lab.gate.evaluation.report import cell, percent
from efim_lab.gate.evaluation.typist.lines import with_plain_line_ends
from efim_lab.gate.package_counts import PackageCounts
from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.answerers.phrases import SURE, PhraseAnswerer
from efim_ls.completion.completer import Completer
from efim_ls.completion.planning.planner import Planner
from efim_ls.languages.table import ANY, name_of
from efim_ls.request import Request
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.loading.checkpoint_reader import read_tokenizer

LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7)
FILE, REPOSITORY = "phrases", "phrases of the repository"  # the latter counts the package's other files, too
MODEL = "the model, as if it knew the language"
HEADER = ("suggestions", "shown %", "right to their end, % of those", "characters", "right characters a place")


@dataclass(frozen=True)
class TypedPlace:
    """A document's text as its cursor's line ends at the cursor, and the text that stood after the cursor."""

    document: CodeDocument
    text: str
    cursor: int
    after: str


@dataclass(frozen=True)
class ShownFigures:
    """Shares and means of shown suggestions; `right` and `characters` are None if none is shown.

    `right` is the share that is right to its end, `gain` the characters of right suggestions at a place.
    """

    shown: Estimate
    right: Estimate | None
    characters: float | None
    gain: Estimate


@dataclass(frozen=True)
class LanguageReport:
    """The figures by source of suggestions; `gain` is what the repository adds to the server in right characters."""

    arms: Mapping[str, ShownFigures]
    gain: Estimate


def measure(
    folder: Path, documents: Sequence[CodeDocument], language: str, lines: int, progress: Progress
) -> LanguageReport:
    """Ask at up to `lines` places determined by the documents, as typing does; raises WorkError, ModelError.

    Phrases are counted in the tokens of the model in `folder`, which is also asked as if it knew the language.
    """
    documents = [with_plain_line_ends(each) for each in documents]
    places = choose_places(documents, lines)
    if not places:
        raise WorkError(f"the data has no line of {name_of(language)}: name a folder of such files")
    settings = Settings(model="" if folder == EMBEDDED else str(folder), model_languages=(ANY,), persist=False)
    tokenizer, arms = read_tokenizer(folder, read_config(folder)), dict[str, Callable[[Request], str]]()
    for known, level in product((FILE, REPOSITORY), LEVELS):
        speaker = PhraseAnswerer(tokenizer, settings.max_new_tokens, settings.max_lines, level)
        arms[_label(known, level)] = partial(_speak, speaker, known)
    completer = Completer.load(settings, _silent)
    for known in (FILE, REPOSITORY):
        arms[f"{MODEL}{', and the repository' if known == REPOSITORY else ''}"] = partial(_ask, completer, known)
    found, memories = {arm: list[str]() for arm in arms}, PackageCounts(tokenizer, documents)
    what = f"{model_name(folder)}, {name_of(language)}"
    for done, place in enumerate(places):
        progress(what, done, len(places))
        request = Request(
            f"file:///{done}",
            place.text,
            place.cursor,
            least="balanced",
            language=language,
            counts=memories.beside(place.document),
        )
        for arm, suggest in arms.items():
            found[arm].append(suggest(request))
    progress(what, len(places), len(places))
    completer.close(0)
    with_counts, without = (_gains(places, found[_label(known, SURE)]) for known in (REPOSITORY, FILE))
    gain = mean([ours - theirs for ours, theirs in zip(with_counts, without, strict=True)])
    return LanguageReport({arm: figures(places, texts) for arm, texts in found.items()}, gain)


def choose_places(documents: Sequence[CodeDocument], lines: int) -> list[TypedPlace]:
    """Choose a random cursor in each of up to `lines` random lines; the rest of the line is not typed yet."""
    rng = random.Random(0)
    plain = [with_plain_line_ends(each) for each in documents]
    return [_place(document, row, rng) for document, row in shuffled_lines(plain, rng)[:lines]]


def figures(places: Sequence[TypedPlace], texts: Sequence[str]) -> ShownFigures:
    """Score suggestions, one for each place; an empty one is not shown."""
    shown = [(place, text) for place, text in zip(places, texts, strict=True) if text]
    right = [place.after.startswith(text) for place, text in shown]
    return ShownFigures(
        shown=proportion([bool(text) for text in texts]),
        right=proportion(right) if right else None,
        characters=sum(len(text) for _, text in shown) / len(shown) if shown else None,
        gain=mean(_gains(places, texts)),
    )


def table(language: str, lines: int, measured: LanguageReport) -> str:
    """Format all figures in Markdown, 95 % intervals in brackets."""
    rows = [[arm, *_cells(each)] for arm, each in measured.arms.items()]
    title = f"{name_of(language)}, {lines:,} places at most, 95 % intervals in brackets"
    gain = f"{_label(REPOSITORY, SURE)}, less one file, right characters a place, paired: "
    return f"{title}\n\n{markdown.table([HEADER, *rows])}\n\n{gain}{cell(measured.gain, '{:+.2f}'.format)}"


def as_json(source: Path, language: str, measured: LanguageReport) -> str:
    """Return one line of JSON."""
    return json.dumps({"data": str(source), "language": language} | asdict(measured))


def _label(known: str, level: float) -> str:
    return f"{known}, {level:.0%} sure or more{': the server' if level == SURE else ''}"


def _speak(speaker: PhraseAnswerer, known: str, request: Request) -> str:
    document = DocumentState(_unplanned)
    return speaker.complete(document, document.ask(_knowing(known, request)), NEVER).text


def _unplanned() -> Planner:
    raise AssertionError("phrases are counted without a frame")


def _ask(completer: Completer, known: str, request: Request) -> str:
    request = _knowing(known, replace(request, uri=f"{request.uri}/{known == REPOSITORY}"))
    return completer.complete(request, NEVER).text


def _knowing(known: str, request: Request) -> Request:
    return request if known == REPOSITORY else replace(request, counts=None)


def _place(document: CodeDocument, row: int, rng: random.Random) -> TypedPlace:
    """Choose a cursor between the end of the indentation and the line's last character."""
    text = document.text
    line, start = line_at(text, row)
    cursor = start + rng.randint(len(line) - len(line.lstrip()), len(line.rstrip()) - 1)
    return TypedPlace(document, text[:cursor] + text[start + len(line) :], cursor, text[cursor:])


def _gains(places: Sequence[TypedPlace], texts: Sequence[str]) -> list[float]:
    """Return the characters of each suggestion if it is right to its end, else 0."""
    return [float(len(text) * place.after.startswith(text)) for place, text in zip(places, texts, strict=True)]


def _cells(each: ShownFigures) -> tuple[str, ...]:
    characters = "" if each.characters is None else f"{each.characters:.1f}"
    return percent(each.shown), percent(each.right), characters, cell(each.gain, "{:.2f}".format)


def _silent(_phase: str, _percent: int) -> None:
    """Report no progress."""
