"""The keys of a typed line: what is suggested before each, and how much of it is right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os.path import commonprefix
from pathlib import Path

from efim_lab.documents import CodeDocument, package_of
from efim_lab.errors import WorkError
from efim_lab.evaluation import heuristic
from efim_lab.evaluation.places.cursors import context_at, is_word
from efim_lab.evaluation.typist.cursor_kinds import CursorKind, kind_of
from efim_lab.evaluation.typist.lines import TypedLine
from efim_lab.package_counts import PackageCounts
from efim_ls.completion.completer import Completer
from efim_ls.languages import language_of
from efim_ls.request import Answer, Preset, Request
from model_runtime.cancel import NEVER

FIRST_WORD = re.compile(r"\W*\w+|\W+")


@dataclass(frozen=True)
class TypedKey:
    """What is suggested before a key is pressed: `shown`, and `hidden`, which follows it but is not shown.

    `line` and `column` count from 1 and 0. `after` is what stands in the finished file from the cursor on, as far as
    it is compared: the rest of the line, or as much as is suggested. Of the suggested characters, hidden ones too,
    the first `right` are right. `words` are the server's pieces of both texts, each with its probability once those
    before it are right: what another level would show can be told from them.
    """

    arm: str
    file: str
    package: str
    language: str
    line: int
    column: int
    kind: CursorKind
    after: str
    shown: str
    hidden: str
    confidence: float | None
    words: tuple[tuple[str, float], ...]
    right: int

    @property
    def is_right(self) -> bool:
        """Whether something is shown and the file goes on with all of it."""
        return 0 < len(self.shown) <= self.right

    @property
    def is_first_word_right(self) -> bool:
        """Whether the first word shown, with what stands before it, is right and ends where the file's does."""
        first = FIRST_WORD.match(self.shown)
        if first is None or not self.after.startswith(first[0]):
            return False
        return not (is_word(first[0][-1]) and is_word(self.after[first.end() : first.end() + 1]))

    @property
    def wrong(self) -> str:
        """What is shown from its first wrong character on."""
        return self.shown[self.right :]


Ask = Callable[[TypedLine, int, tuple[CodeDocument, ...]], Answer]  # (line, cursor, other open files)


def type_line(arm: str, line: TypedLine, others: tuple[CodeDocument, ...], ask: Ask) -> list[TypedKey]:
    """Type a line key by key and return what is suggested before each of its keys."""
    return [key_at(arm, line, cursor, ask(line, cursor, others)) for cursor in range(line.start, line.end)]


def key_at(arm: str, line: TypedLine, cursor: int, answer: Answer) -> TypedKey:
    """Return the key that is pressed at a cursor after an answer."""
    suggested, after = answer.text + answer.hidden, line.after(cursor)
    return TypedKey(
        arm=arm,
        file=line.document.path,
        package=package_of(line.document),
        language=language_of(line.document.path),
        line=line.row + 1,
        column=cursor - line.document.text.rfind("\n", 0, cursor) - 1,
        kind=kind_of(line, cursor),
        after=after[: max(line.end - cursor, len(suggested) + 1)],
        shown=answer.text,
        hidden=answer.hidden,
        confidence=answer.confidence,
        words=answer.words,
        right=len(commonprefix([suggested, after])),
    )


def asking(
    completer: Completer, least: float | Preset, root: str = "typed", memories: PackageCounts | None = None
) -> Ask:
    """Return a function that asks the server's completer as an editor does while its user types.

    Documents of another `root` are others: suggestions for one are not known in the other. With `memories`, the
    server knows the line's repository.
    """

    def ask(line: TypedLine, cursor: int, others: tuple[CodeDocument, ...]) -> Answer:
        request = Request(
            uri=f"file:///{root}/{line.document.path}",
            text=line.text_at(cursor),
            cursor=cursor,
            others=tuple(other.text for other in others),
            least=least,
            language=language_of(line.document.path),
            counts=memories.beside(line.document, others) if memories else None,
        )
        return completer.complete(request, NEVER)

    return ask


def ask_heuristic(line: TypedLine, cursor: int, others: tuple[CodeDocument, ...]) -> Answer:
    """Ask the heuristic, which reads the whole file and the others."""
    context = context_at(line.text_at(cursor), cursor, cursor, 1)
    return Answer(heuristic.complete(context, tuple(other.text for other in others)))


def write_rows(path: Path, keys: Mapping[str, Sequence[TypedKey]]) -> None:
    """Write each model's keys as JSON Lines, one object a key, in the order of typing; raises WorkError."""
    rows = ({"model": model} | asdict(key) for model, typed in keys.items() for key in typed)
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except OSError as error:
        raise WorkError(f"{path} cannot be written ({error.strerror}): check the folder, or name another") from error
