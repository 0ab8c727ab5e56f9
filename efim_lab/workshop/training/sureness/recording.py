"""Types lines and records, before each key, the facts from which the server tells how sure a suggestion is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.measured_model import load_completer
from efim_lab.gate.evaluation.typist.keys import NOT_MADE, READING
from efim_lab.gate.evaluation.typist.lines import TypedLine, choose_lines, with_plain_line_ends
from efim_lab.gate.package_counts import PackageCounts
from efim_ls.completion.completer import Completer
from efim_ls.completion.filters.place import place_of
from efim_ls.completion.suggestions.explanation import AnswerOrigin
from efim_ls.completion.suggestions.place_kind import Spot, spot_of
from efim_ls.completion.suggestions.sure import MOST_WORDS, is_made_up
from efim_ls.completion.suggestions.sureness import Facts, WordFacts, guess_facts, word_facts
from efim_ls.completion.suggestions.words import words_at
from efim_ls.request import Request
from efim_ls.workspace.modules.environment import find_environment
from efim_ls.workspace.modules.table import ModuleTable
from model_runtime.cancel import NEVER
from model_runtime.engine.output import WordEnd

ARMS = ("one file", "repository")
_LEAST = 0.2  # nothing that is recorded depends on it


@dataclass(frozen=True)
class RecordedKey:
    """The facts known before a key is pressed.

    The guess is `text` from its character `start` on, and its words end at `ends`; `facts` is None if there is no
    guess. `words` are the file's words, without their typed beginning, with facts in which no rival is sure.
    `made_up`: the guess makes a word that stands nowhere.
    """

    line: TypedLine
    cursor: int
    spot: Spot
    text: str = ""
    start: int = 0
    ends: tuple[WordEnd, ...] = ()
    facts: Facts | None = None
    words: tuple[tuple[str, WordFacts], ...] = ()
    made_up: bool = False


@dataclass(frozen=True)
class RecordedLine:
    """A line that was typed: with its file alone, or in its repository."""

    arm: str
    keys: Sequence[RecordedKey]


def record(
    folder: Path, documents: Sequence[CodeDocument], count: int, progress: Callable[[int, int], None]
) -> list[RecordedLine]:
    """Type up to `count` lines of documents in each arm with the model in a folder.

    Raises WorkError if there is no line to type, ModelError if the model cannot be loaded.
    """
    documents = [with_plain_line_ends(each) for each in documents]
    lines, found = choose_lines(documents, count), list[RecordedLine]()
    if not lines:
        raise WorkError("the data has no line of at most 200 characters: name a folder of packages")
    (completer, memories), modules = load_completer(folder, documents), ModuleTable(partial(find_environment, ()))
    for done, line in enumerate(lines):
        progress(done, len(lines))
        modules.want(line.document.path, line.text_at(line.start))
        modules.wait(READING)
        for arm, known in zip(ARMS, (None, memories), strict=True):
            requests = [_request(arm, line, cursor, known, modules) for cursor in line.cursors]
            found.append(RecordedLine(arm, [_ask(completer, line, request) for request in requests]))
    progress(len(lines), len(lines))
    completer.close(0)
    return found


def recorded(line: TypedLine, request: Request, origin: AnswerOrigin | None) -> RecordedKey:
    """Return the facts known at a request's cursor in a line, once an answer was made from an origin."""
    place, cursor = place_of(request), request.cursor
    spot = spot_of(place, origin is not None and origin.refuted)
    if origin is None:
        return RecordedKey(line, cursor, spot)
    likelihood, start, words, size = origin.likelihood, origin.start, words_at(spot, place), len(spot.stub)
    facts = guess_facts(likelihood, start, spot, words, place) if likelihood.text[start:] else None
    return RecordedKey(
        line=line,
        cursor=cursor,
        spot=spot,
        text=likelihood.text,
        start=start,
        ends=tuple(likelihood.word_ends(start)),
        facts=facts,
        words=tuple(
            (rest, word_facts(word, words, spot, likelihood.begins(start, rest), 0.0))
            for word in words.longer[:MOST_WORDS]
            if (rest := word.text[size:])
        ),
        made_up=facts is not None and is_made_up(likelihood, start, facts.size, spot, words, place),
    )


def _request(arm: str, line: TypedLine, cursor: int, memories: PackageCounts | None, modules: ModuleTable) -> Request:
    path = line.document.path
    return Request(
        uri=f"file:///{arm.replace(' ', '-')}/{path}",
        text=line.text_at(cursor),
        cursor=cursor,
        least=_LEAST,
        language=line.document.language,
        counts=memories.beside(line.document) if memories else None,
        modules=modules.view,
    )


def _ask(completer: Completer, line: TypedLine, request: Request) -> RecordedKey:
    answer = completer.complete(request, NEVER)
    return recorded(line, request, completer.made_from(request.uri) if answer.reason not in NOT_MADE else None)
