"""Asks by a key at held-out places, alone and with the workspace, and judges what comes.

Held-out packages can import what their files do, as if their environments were known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.by_key.judged import imported, is_head, is_unfinished, says_again
from efim_lab.gate.evaluation.by_key.places import KeyPlace, choose_key_places
from efim_lab.gate.evaluation.figures import metrics
from efim_lab.gate.evaluation.held_out import Progress, model_name
from efim_lab.gate.evaluation.measured_model import load_completer
from efim_lab.gate.evaluation.typist.keys import READING
from efim_lab.gate.evaluation.typist.lines import with_plain_line_ends
from efim_lab.gate.package_counts import PackageCounts
from efim_ls.completion.completer import Completer
from efim_ls.request import Answer, Request
from efim_ls.workspace.modules.document import imports_of
from efim_ls.workspace.modules.environment import WORKSPACE, Environment, find_environment
from efim_ls.workspace.modules.names import Target
from efim_ls.workspace.modules.table import ModuleTable, ModuleView
from model_runtime.cancel import NEVER

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
    (completer, memories), modules = load_completer(folder, documents), PackageModules(documents)
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


@dataclass(frozen=True)
class PackageEnvironment(Environment):
    """An environment in which all is installed that a package's files import, and nothing else."""

    imported: frozenset[str] = frozenset()

    def places(self) -> dict[str, str]:
        """Return all modules that can be imported, and in plain words where each one lies."""
        return dict.fromkeys(self.imported, WORKSPACE) | super().places()


class PackageModules:
    """The modules that the files of each package can import."""

    def __init__(self, documents: Sequence[CodeDocument]) -> None:
        """Take all documents of the packages."""
        self._imported = dict[str, set[str]]()
        self._tables = dict[str, ModuleTable]()
        for each in documents:
            names = {module.partition(".")[0] for module in imports_of(each.text).modules}
            self._imported.setdefault(package_of(each), {package_of(each)}).update(names)

    def view(self, document: CodeDocument, text: str) -> ModuleView:
        """Return the view of a document with this text once all its imports are read."""
        package = package_of(document)
        if package not in self._tables:
            known = find_environment((), variables={})
            here = PackageEnvironment(
                known.library, known.version, is_whole=True, imported=frozenset(self._imported[package])
            )
            self._tables[package] = ModuleTable(lambda: here)
        table = self._tables[package]
        table.want(document.path, text)
        table.wait(READING)
        return table.view


def is_there(view: ModuleView, module: str, name: str) -> bool:
    """Return whether a module can be imported and, if the name is not empty, has it; true where that is not known."""
    if not view.top_level.may_have(module.partition(".")[0]):
        return False
    names = view.modules.attributes(Target(module)) if name and name != "*" else None
    return names is None or names.may_have(name)
