"""Types the demo's prepared edit into a real file, one key after the other."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from editor_clients.headless.client import Completion, Editor

FILE = Path(__file__).with_name("inventory.py")
EDIT = Path(__file__).with_name("edit.json")
BACKSPACE = "\b"
KEY = re.compile(r"\n *|.")  # an editor indents a new line by itself
NAMES = {BACKSPACE: "Backspace", " ": "Space"}
WORTH_A_TAB = 4  # characters: less is typed


@dataclass(frozen=True)
class Moment:
    """The editor's state after a key.

    `accepted` characters came from the suggestion before. If this one is `welcome`, the next key accepts it or its
    first lines; if the moment is the `last` of a place, the cursor jumps.
    """

    key: str
    accepted: int
    text: str
    cursor: int
    completion: Completion
    welcome: bool
    last: bool


class Typist:
    """Works through the edit: places, and what to type there; a backspace corrects a typing error."""

    def __init__(self, editor: Editor) -> None:
        self._editor, self._uri = editor, FILE.as_uri()
        self._cursor = 0

    async def moments(self) -> AsyncIterator[Moment]:
        """Open the file and press every key; accept suggestions that match what comes next."""
        self._editor.open(self._uri, FILE.read_text(encoding="utf-8"), "python")
        for step in json.loads(EDIT.read_text(encoding="utf-8")):
            self._cursor = self._editor.text(self._uri).index(step["after"]) + len(step["after"])
            async for moment in self._work(step["type"]):
                yield moment

    async def _work(self, todo: str) -> AsyncIterator[Moment]:
        completion, fitting = None, ""
        while todo:
            if completion is not None and fitting:
                key, done = await self._accept(completion, fitting), fitting
            else:
                key, done = self._type(todo)
            todo = todo[len(done) :]
            completion, accepted = await self._editor.complete(self._uri, self._cursor), len(fitting)
            fitting = _fitting(completion.text, todo)
            text = self._editor.text(self._uri)
            yield Moment(key, accepted, text, self._cursor, completion, bool(fitting), not todo)

    async def _accept(self, completion: Completion, fitting: str) -> str:
        self._splice(0, fitting)
        whole = fitting == completion.text
        if completion.command is not None:
            await self._editor.accept(completion.command, None if whole else len(fitting))
        return "Tab" if whole else "Tab (line)"

    def _type(self, todo: str) -> tuple[str, str]:
        key: str = KEY.findall(todo)[0]
        self._splice(*((1, "") if key == BACKSPACE else (0, key)))
        return "Enter" if key[0] == "\n" else NAMES.get(key, key), key

    def _splice(self, delete: int, insert: str) -> None:
        self._editor.edit(self._uri, self._cursor - delete, delete, insert)
        self._cursor += len(insert) - delete


def _fitting(suggestion: str, todo: str) -> str:
    """Return the leading lines of a suggestion that match what comes next, if worth a key."""
    lines = suggestion.split("\n")
    parts = ("\n".join(lines[:count]) for count in range(len(lines), 0, -1))
    next_up = todo.partition(BACKSPACE)[0]
    return next((part for part in parts if len(part) >= WORTH_A_TAB and next_up.startswith(part)), "")
