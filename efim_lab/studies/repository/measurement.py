"""Asks the server at places of repositories, with every arm, and types what stands there."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.figures import metrics
from efim_lab.gate.evaluation.held_out import Progress, model_name
from efim_lab.studies.repository.arms import ARMS, RepositoryArm
from efim_lab.studies.repository.bits import bits_of
from efim_lab.studies.repository.excerpts import OtherFiles
from efim_lab.studies.repository.places import RepositoryPlace
from efim_ls.completion.completer import Completer
from efim_ls.completion.models.open import load_model, with_store
from efim_ls.completion.suggestions.levels import UNSURE
from efim_ls.request import Answer, Request
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.linear import packed_format
from model_runtime.loading.checkpoint_reader import read_tokenizer
from model_runtime.loading.load import LoadedModel
from model_runtime.prompt.prompt import Prompt
from model_runtime.shelves.excerpts.excerpts import PLACES, ExcerptBudget, Excerpts


@dataclass(frozen=True)
class PlaceScore:
    """An arm's result at one place; `retrieved` if similar code was looked for.

    `suggested` is cut to the target's number of lines, and `bits` counts the target's bits. For a typed place,
    `prompt` is the number of its first prompt's tokens, and `keystrokes` are the tokens recomputed before each other
    key.
    """

    place: RepositoryPlace
    suggested: str
    bits: float
    retrieved: bool = False
    prompt: int | None = None
    keystrokes: tuple[int, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the target is suggested, blank lines and blanks at lines' ends apart."""
        return metrics.is_same_code(self.suggested, self.place.target)


class AskedCompleter(Completer):
    """The server's completer, which also returns the prompt of a request."""

    def prompt(self, request: Request) -> Prompt:
        """Return the prompt of a request with all that the n-grams read; changes nothing."""
        planner = self._opened(request.uri)[1].planner.copy()
        planner.offer(request.context, request.excluded_files)
        frame = planner.plan(request.text, request.cursor)
        return self.models.first.model_answerer.with_surroundings(request, frame, NEVER)


class ArmSubject:
    """One arm's server: a completer over a loaded model, and what its requests carry."""

    def __init__(self, arm: RepositoryArm, model: LoadedModel, completer: AskedCompleter, others: OtherFiles) -> None:
        """Take a completer whose settings are the arm's."""
        self._arm, self._model, self._completer, self._others = arm, model, completer, others

    def ask(self, number: int, place: RepositoryPlace) -> PlaceScore:
        """Ask at a place, in a document that was never open before."""
        retrieved = self._arm.retrieved == "everywhere"
        asked, answer = self._asked(f"asked/{number}", place, retrieved)
        if not retrieved and self._is_unsure(answer):
            retrieved = True
            asked, answer = self._asked(f"asked again/{number}", place, retrieved)
        suggested = "\n".join((answer.text + answer.hidden).split("\n")[: place.lines])
        bits = bits_of(self._model, self._completer.prompt(asked), place.target)
        return PlaceScore(place, suggested, bits, retrieved)

    def type(self, number: int, score: PlaceScore) -> PlaceScore:
        """Type a target key by key, with the excerpts that it was asked with: they stay while someone types."""
        place, excerpts = score.place, self._excerpts(score.place, score.retrieved)
        keys = [self._request(f"typed/{number}", place, typed, excerpts) for typed in range(len(place.target))]
        first, *others = (self._completer.complete(key, NEVER).costs for key in keys)
        self._completer.close_document(keys[0].uri, save=False)
        keystrokes = tuple(costs.recomputed for costs in others)
        return replace(score, prompt=first.reused + first.recomputed, keystrokes=keystrokes)

    def _asked(self, root: str, place: RepositoryPlace, retrieved: bool) -> tuple[Request, Answer]:
        request = self._request(root, place, 0, self._excerpts(place, retrieved))
        answer = self._completer.complete(request, NEVER)
        self._completer.close_document(request.uri, save=False)
        return request, answer

    def _is_unsure(self, answer: Answer) -> bool:
        """Return whether a server that may read similar code would look for some after an answer."""
        reads = bool(ExcerptBudget(*self._completer.context_budget).similar)
        return reads and answer.confidence is not None and answer.confidence < UNSURE

    def _excerpts(self, place: RepositoryPlace, retrieved: bool) -> Excerpts:
        return self._others.excerpts(place, ExcerptBudget(*self._completer.context_budget), retrieved)

    def _request(self, root: str, place: RepositoryPlace, typed: int, excerpts: Excerpts) -> Request:
        """Return the request after some of the target's characters: of a chunk, one by key, else as typing asks."""
        return Request(
            uri=f"file:///{self._arm.name}/{root}/{place.document.path}".replace(" ", "-"),
            text=place.text_at(typed),
            cursor=place.cursor + typed,
            explicit=place.kind == "chunk" and not typed,
            least="balanced",
            language="python",
            counts=self._others.memories.beside(place.document) if self._arm.counts else None,
            context=excerpts,
        )


def measure(
    folder: Path,
    documents: Sequence[CodeDocument],
    places: Sequence[RepositoryPlace],
    typed: int,
    progress: Progress,
    arms: Sequence[RepositoryArm] = ARMS,
) -> dict[RepositoryArm, list[PlaceScore]]:
    """Score every place with every arm, in this order; the first `typed` places of each kind are typed as well.

    The documents come from all repositories. Raises ModelError if the model cannot be loaded.
    """
    tokenizer, name = read_tokenizer(folder, read_config(folder)), model_name(folder)
    found = {arm: list[PlaceScore]() for arm in arms}
    with TemporaryDirectory() as copies, closing(OtherFiles(documents, tokenizer, Path(copies))) as others:
        # Arms that show the same share a model, so that what their prompts share is computed once.
        for _, group in groupby(arms, key=lambda arm: arm.shown):
            alike = list(group)
            what = f"{name}, {' and '.join(arm.name for arm in alike)}"
            with _opened(folder, alike, others) as subjects:
                for number, place in enumerate(places):
                    progress(what, number, len(places))
                    for arm, subject in zip(alike, subjects, strict=True):
                        found[arm].append(subject.ask(number, place))
            progress(what, len(places), len(places))
        chosen = _first_of_each_kind(places, typed)
        for arm in arms:  # with a fresh model: an arm must not find tokens that another arm has computed
            with _opened(folder, [arm], others) as (subject,):
                for done, number in enumerate(chosen):
                    progress(f"{name}, {arm.name}, typed", done, len(chosen))
                    found[arm][number] = subject.type(number, found[arm][number])
            progress(f"{name}, {arm.name}, typed", len(chosen), len(chosen))
    return found


@contextmanager
def _opened(folder: Path, arms: Sequence[RepositoryArm], others: OtherFiles) -> Generator[list[ArmSubject]]:
    """Load the model for these arms, which show the same, and close it afterwards."""
    shown = arms[0].shown
    settings = _settings(folder, "text" if shown else "phrases")
    model, budget = load_model(settings, _silent)
    places = zip(PLACES, ExcerptBudget(*budget.context), strict=True)
    budget = replace(budget, context=ExcerptBudget(*(tokens if each in shown else 0 for each, tokens in places)))
    completer = AskedCompleter.over(with_store(model, budget, settings), settings)
    yield [ArmSubject(arm, model, completer, others) for arm in arms]
    completer.close(0)


def _settings(folder: Path, other_files: Literal["text", "phrases"]) -> Settings:
    # The fastest format, the default, is another on a busy machine.
    name = "" if folder == EMBEDDED else str(folder)
    return Settings(model=name, persist=False, weights=packed_format(), other_files=other_files)


def _first_of_each_kind(places: Sequence[RepositoryPlace], count: int) -> list[int]:
    """Return the indices of the first places of each kind."""
    by_kind = dict[str, list[int]]()
    for number, place in enumerate(places):
        by_kind.setdefault(place.kind, []).append(number)
    return [number for numbers in by_kind.values() for number in numbers[:count]]


def _silent(_phase: str, _percent: int) -> None:
    """Report no progress."""
