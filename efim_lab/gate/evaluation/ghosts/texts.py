"""Types whole texts from the first key to the last: each alone, and in a project that has other files."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.held_out import Progress, model_name
from efim_lab.gate.evaluation.measured_model import load_completer
from efim_lab.gate.evaluation.typist.keys import TypedKey, asking, type_line
from efim_lab.gate.evaluation.typist.known_words import WorkspaceWords
from efim_lab.gate.evaluation.typist.lines import whole_text
from efim_lab.gate.evaluation.typist.measurement import TypingReport, report
from efim_ls.workspace.modules.environment import find_environment
from efim_ls.workspace.modules.table import ModuleTable

ALONE, PROJECT = "alone", "project"


@dataclass(frozen=True)
class Texts:
    """Texts to type, and the `project` that they are typed in: files that are not open. All are of one package."""

    typed: tuple[CodeDocument, ...]
    project: tuple[CodeDocument, ...]


def read_texts(path: Path) -> Texts:
    """Read a TOML file with [[text]] to type and [[file]] of the project, each with `path` and `text`.

    Raises WorkError if it cannot be read or has no text.
    """
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
        typed, project = (
            tuple(CodeDocument(f"{PROJECT}/{each['path']}", each["text"]) for each in read.get(kind, ()))
            for kind in ("text", "file")
        )
    except OSError as error:
        raise WorkError(f"{path} cannot be read ({error.strerror}): check the path") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkError(f"{path} is damaged ({error}): it needs [[text]] with `path` and `text`") from error
    if not any(each.text.strip() for each in typed):
        raise WorkError(f"{path} has no text to type: add [[text]] with `path` and `text`")
    return Texts(typed, project)


def type_texts(folder: Path, texts: Texts, progress: Progress) -> tuple[TypingReport, list[Sequence[TypedKey]]]:
    """Type each text, alone and in the project; return the keys as well. Raises ModelError if there is no model."""
    name = model_name(folder)
    completer, memories = load_completer(folder, texts.project)
    modules = ModuleTable(partial(find_environment, ()))
    words, keys = WorkspaceWords(texts.project), dict[str, list[list[TypedKey]]]()
    for arm, known in ((ALONE, None), (PROJECT, memories)):
        ask, keys[arm] = asking(completer, "balanced", arm, known, modules), []
        for done, text in enumerate(texts.typed):
            progress(f"{name}, {arm}", done, len(texts.typed))
            keys[arm].append(type_line(arm, whole_text(text), (), ask, words.beside(text) if known else ()))
        progress(f"{name}, {arm}", len(texts.typed), len(texts.typed))
    completer.close(0)
    return report(name, keys, {arm: [] for arm in keys}), [line for lines in keys.values() for line in lines]
