"""Asks by a key at held-out places, alone and with the workspace, and judges what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.by_key.judged import imported, is_head, is_unfinished, says_again
from efim_lab.gate.evaluation.by_key.modules import PackageModules, is_there
from efim_lab.gate.evaluation.by_key.places import KeyPlace, choose_key_places
from efim_lab.gate.evaluation.figures import metrics
from efim_lab.gate.evaluation.held_out import Progress, model_name
from efim_lab.gate.evaluation.typist.lines import with_plain_line_ends
from efim_lab.gate.package_counts import PackageCounts
from efim_ls.completion.completer import Completer
from efim_ls.request import Answer, Request
from efim_ls.settings import Settings
from efim_ls.workspace.modules.table import ModuleView
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.linear import packed_format
from model_runtime.loading.checkpoint_reader import read_tokenizer

KeyArm = Literal["alone", "workspace"]
ARMS: tuple[KeyArm, ...] = ("alone", "workspace")


@dataclass(frozen=True)
class KeyAnswer:
    """The answer at a place: `texts`, the likeliest first, each judged in the same order.

    `milliseconds` is the time of the whole answer, `beyond_first` the time to find texts after the first.
    """

    arm: KeyArm
    place: KeyPlace
    texts: tuple[str, ...]
    unfinished: tuple[bool, ...]
    heads: tuple[bool, ...]
    again: tuple[bool, ...]
    invented: tuple[bool, ...]
    milliseconds: float
    beyond_first: float

    @property
    def first_lines(self) -> list[str]:
        """The rest of the cursor's line as each text has it."""
        return [text.partition("\n")[0] for text in self.texts]

    @property
    def distinct(self) -> int:
        """How many texts have another first line that is not blank, blanks apart."""
        return len({"".join(text.strip().partition("\n")[0].split()) for text in self.texts})

    def is_right(self, most: int) -> bool:
        """Return whether one of the first `most` texts has the right rest of the line."""
        return any(metrics.is_exact(line, self.place.rest) for line in self.first_lines[:most])


def measure(
    folder: Path, documents: Sequence[CodeDocument], count: int, wanted: int, progress: Progress
) -> list[KeyAnswer]:
    """Ask for `wanted` suggestions at up to `count` places of each kind.

    Raises WorkError if the documents have no line to ask at, ModelError if the model cannot be loaded.
    """
    documents = [with_plain_line_ends(each) for each in documents]
    places, name = choose_key_places(documents, count), model_name(folder)
    if not places:
        raise WorkError("the data has no line of at most 200 characters: name a heldout.jsonl or a folder of code")
    settings = Settings(model="" if folder == EMBEDDED else str(folder), persist=False, weights=packed_format())
    completer = Completer.load(settings, _silent)
    memories = PackageCounts(read_tokenizer(folder, read_config(folder)), documents)
    modules = PackageModules(documents)
    answers = list[KeyAnswer]()
    for done, place in enumerate(places):
        progress(f"{name}, by key", done, len(places))
        view = modules.view(place.line.document, place.line.text_at(place.cursor))
        answers += [_judged(arm, place, view, _asked(completer, arm, place, view, wanted, memories)) for arm in ARMS]
    completer.close(0)
    return answers


def _asked(
    completer: Completer, arm: KeyArm, place: KeyPlace, view: ModuleView, wanted: int, memories: PackageCounts
) -> Answer:
    """Ask as an editor does when its user presses a key; each arm has separate documents."""
    document = place.line.document
    request = Request(
        uri=f"file:///{arm}/{document.path}",
        text=place.line.text_at(place.cursor),
        cursor=place.cursor,
        explicit=True,
        count=wanted,
        language=document.language,
        counts=memories.beside(document) if arm == "workspace" else None,
        modules=view,
    )
    return completer.complete(request, NEVER)


def _judged(arm: KeyArm, place: KeyPlace, view: ModuleView, answer: Answer) -> KeyAnswer:
    texts = (answer.text, *answer.alternatives) if answer.text else ()
    return KeyAnswer(
        arm,
        place,
        texts,
        unfinished=tuple(is_unfinished(place.above, place.before, text) for text in texts),
        heads=tuple(map(is_head, texts)),
        again=tuple(says_again(text) for text in texts),
        invented=tuple(not all(is_there(view, *each) for each in imported(place.before, text)) for text in texts),
        milliseconds=answer.costs.ms.total,
        beyond_first=answer.costs.ms.alternatives,
    )


def _silent(_phase: str, _percent: int) -> None:
    """Report no progress."""
