"""Which part of a frame was computed from text that commits have, so that other machines may get it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from efim_ls.completion.planning.planner import Frame
from model_runtime.prompt.context import ContextPiece
from model_runtime.prompt.prompt import WINDOW_PARTS
from model_runtime.sequence_key import CommittedParts


def committed_parts(text_of: Callable[[str], str | None], uri: str, frame: Frame) -> CommittedParts:
    """Return how much of a document's frame stands in the commit: whole parts, up to the first that does not.

    `text_of` returns what the last commit has of a document. That text itself is compared, not whether the document
    was changed: a line typed below leaves the text above.
    """
    plan, own = frame.plan, text_of(uri)
    by_file: dict[str, list[ContextPiece]] = {}
    for piece in plan.context.all:
        by_file.setdefault(piece.file, []).append(piece)
    files = {file for file, pieces in by_file.items() if _stand_in(text_of(Path(file).as_uri()), pieces)}

    def is_committed(name: str) -> bool:
        if name in WINDOW_PARTS:
            return own is not None and _with_lf(getattr(plan, name)) in own
        return all(each.file in files for each in plan.context.all if each.place == name)

    version = blake2b((own or "").encode("utf-8", "replace"), digest_size=16).digest()
    shared = frame.prompt.committed(is_committed, frozenset(Path(file).as_uri() for file in files))
    return shared._replace(version=version)


def _stand_in(text: str | None, pieces: list[ContextPiece]) -> bool:
    """Return whether each line that pieces show is one of a text's, whatever its indentation."""
    if text is None:
        return False
    lines = {line.strip() for line in text.split("\n")}
    return all(line.strip() in lines for each in pieces for line in _with_lf(each.text).split("\n") if line.strip())


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")
