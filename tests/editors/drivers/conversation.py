"""What an editor and the language server say to each other, as tests/lsp/recorder.py writes it down."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..fetching.part import ROOT

RECORDER = ROOT / "tests" / "lsp" / "recorder.py"
ASKING = "textDocument/inlineCompletion"


@dataclass(frozen=True)
class Answer:
    """The answer for one place in a document."""

    line: int
    character: int
    texts: tuple[str, ...]


def recording(python: Path, folder: Path) -> tuple[Path, Path]:
    """Return a Python whose language server is recorded, and the file with the recording."""
    said, script = folder / "said.jsonl", folder / "python"
    serve = shlex.join([str(python), str(RECORDER), str(said), str(python)])
    here = f"export PYTHONPATH={shlex.quote(str(ROOT))}\n"  # one daemon serves all editors of tests
    script.write_text(
        f'#!/bin/sh\n{here}[ "$3" = serve ] && exec {serve} "$@"\nexec {shlex.quote(str(python))} "$@"\n'
    )
    script.chmod(0o755)
    return script, said


@dataclass(frozen=True)
class Conversation:
    said: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Conversation:
        """Return all messages so far; the last line may be incomplete."""
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        return cls([json.loads(line) for line in lines])

    def sent(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of each message with this name that the editor sent."""
        messages = [each["message"] for each in self.said if each["from"] == "editor"]
        return [each["params"] for each in messages if each.get("method") == method]

    def answers(self) -> list[Answer]:
        """Return the answers to requests for ghost text, in order, without refusals."""
        asked, found = dict[Any, dict[str, int]](), list[Answer]()
        for each in self.said:
            message = each["message"]
            if each["from"] == "editor" and message.get("method") == ASKING:
                asked[message["id"]] = message["params"]["position"]
            elif each["from"] == "server" and "result" in message and (place := asked.pop(message["id"], None)):
                items = (message["result"] or {}).get("items", [])
                found.append(Answer(place["line"], place["character"], tuple(item["insertText"] for item in items)))
        return found
