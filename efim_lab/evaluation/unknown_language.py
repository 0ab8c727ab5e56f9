"""Measures suggestions in a language that the model does not know: the file's phrases, and the model itself."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from efim_lab.documents import CodeDocument
from efim_lab.errors import WorkError
from efim_lab.evaluation.figures import markdown
from efim_lab.evaluation.figures.intervals import Estimate, mean, proportion
from efim_lab.evaluation.held_out import Progress, model_name
from efim_lab.evaluation.places.cursors import line_at, shuffled_lines
from efim_lab.evaluation.report import cell, percent
from efim_lab.evaluation.typist.measurement import TypingReport
from efim_ls.completion.completer import Completer
from efim_ls.completion.phrase_speaker import SURE, PhraseSpeaker
from efim_ls.completion.planner import never
from efim_ls.completion.suggestions.recent import RecentSuggestions
from efim_ls.languages import ANY, name_of
from efim_ls.request import Request
from efim_ls.settings import Settings
from model_runtime.checkpoint.config import EMBEDDED, read_config
from model_runtime.loading.checkpoint_reader import read_tokenizer

LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7)
HEADER = ("suggestions", "shown %", "right to their end, % of those", "characters", "right characters a place")


@dataclass(frozen=True)
class TypedPlace:
    """A text whose cursor's line ends at the cursor, and the text that stood after the cursor."""

    text: str
    cursor: int
    after: str


@dataclass(frozen=True)
class ShownFigures:
    """Shares and means of what is shown; `right` and `characters` are None if nothing is.

    `right` is the share that is right to its end, `gain` the characters of right suggestions at a place.
    """

    shown: Estimate
    right: Estimate | None
    characters: float | None
    gain: Estimate


def measure(
    folder: Path, documents: Sequence[CodeDocument], language: str, lines: int, progress: Progress
) -> Mapping[str, ShownFigures]:
    """Ask at up to `lines` places determined by the documents, as typing does; raises WorkError, ModelError.

    Phrases are counted in the tokens of the model in `folder`, which is also asked as if it knew the language.
    """
    places = choose_places(documents, lines)
    if not places:
        raise WorkError(f"the data has no line of {name_of(language)}: name a folder of such files")
    settings = Settings(model="" if folder == EMBEDDED else str(folder), model_languages=(ANY,), persist=False)
    tokenizer, arms = read_tokenizer(folder, read_config(folder)), dict[str, Callable[[Request], str]]()
    for level in LEVELS:
        speaker = PhraseSpeaker(tokenizer, settings.max_new_tokens, settings.max_lines, level)
        label = f"phrases, {level:.0%} sure or more{': the server' if level == SURE else ''}"
        arms[label] = lambda request, each=speaker: each.complete(request, RecentSuggestions(), never).text
    completer = Completer.load(settings, _silent)
    arms["the model, as if it knew the language"] = lambda request: completer.complete(request, never).text
    found = {arm: list[str]() for arm in arms}
    what = f"{model_name(folder)}, {name_of(language)}"
    for done, place in enumerate(places):
        progress(what, done, len(places))
        request = Request(
            f"file:///{done}", place.text, place.cursor, least=settings.min_confidence, language=language
        )
        for arm, suggest in arms.items():
            found[arm].append(suggest(request))
    progress(what, len(places), len(places))
    completer.close(0)
    return {arm: figures(places, texts) for arm, texts in found.items()}


def choose_places(documents: Sequence[CodeDocument], lines: int) -> list[TypedPlace]:
    """Choose a random cursor in each of up to `lines` random lines; the rest of the line is not typed yet."""
    rng = random.Random(0)
    texts = [CodeDocument(each.path, each.text.replace("\r\n", "\n").replace("\r", "\n")) for each in documents]
    return [_place(text, row, rng) for text, row in shuffled_lines(texts, rng)[:lines]]


def figures(places: Sequence[TypedPlace], texts: Sequence[str]) -> ShownFigures:
    """Score suggestions, one for each place; an empty one is not shown."""
    shown = [(place, text) for place, text in zip(places, texts, strict=True) if text]
    right = [place.after.startswith(text) for place, text in shown]
    gains = [float(len(text) * place.after.startswith(text)) for place, text in zip(places, texts, strict=True)]
    return ShownFigures(
        shown=proportion([bool(text) for text in texts]),
        right=proportion(right) if right else None,
        characters=sum(len(text) for _, text in shown) / len(shown) if shown else None,
        gain=mean(gains),
    )


def table(language: str, lines: int, measured: Mapping[str, ShownFigures]) -> str:
    """Format all figures in Markdown, 95 % intervals in brackets."""
    rows = [[arm, *_cells(each)] for arm, each in measured.items()]
    title = f"{name_of(language)}, {lines:,} places at most, 95 % intervals in brackets"
    return f"{title}\n\n{markdown.table([HEADER, *rows])}"


def as_json(source: Path, language: str, measured: Mapping[str, ShownFigures], typing: TypingReport) -> str:
    """Return one line of JSON."""
    arms = {arm: asdict(each) for arm, each in measured.items()}
    return json.dumps({"data": str(source), "language": language, "arms": arms, "typing": asdict(typing)})


def _place(text: str, row: int, rng: random.Random) -> TypedPlace:
    """Choose a cursor between the end of the indentation and the line's last character."""
    line, start = line_at(text, row)
    cursor = start + rng.randint(len(line) - len(line.lstrip()), len(line.rstrip()) - 1)
    return TypedPlace(text[:cursor] + text[start + len(line) :], cursor, text[cursor:])


def _cells(each: ShownFigures) -> tuple[str, ...]:
    characters = "" if each.characters is None else f"{each.characters:.1f}"
    return percent(each.shown), percent(each.right), characters, cell(each.gain, "{:.2f}".format)


def _silent(_phase: str, _percent: int) -> None:
    """Report no progress."""
