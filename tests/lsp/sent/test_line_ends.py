"""The same text gets the same suggestions, whatever ends its lines and whether a byte order mark begins it."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_ls.failures import FilePlace
from efim_ls.session.one_shot import cursor_at, read
from tests.http.server import serving
from tests.lsp.wire import ALONE, GHOST_TEXT, started

PLACES = (  # without imports: their names are learnt meanwhile
    "def load(path):\n    with open(path) as file:\n        return file.‸",
    "class Shape:\n    def __init__(self, name, size):\n        self.name = name\n        self.‸\n\n    def at():\n",
    "def main(names):\n    for name in na‸\n\n\nif __name__ == '__main__':\n    main()\n",
)


def variants(text: str) -> list[str]:
    return [mark + text.replace("\n", end) for end in ("\n", "\r\n", "\r") for mark in ("", "\ufeff")]


async def test_an_editor_gets_the_same() -> None:
    async with started(ALONE, GHOST_TEXT) as editor:
        for marked in PLACES:
            answers = list[object]()
            for text in variants(marked):
                page = editor.open(text)
                asked = [await page.ask(kind)[1] for kind in (2, 1)]
                texts = [[item["insertText"] for item in each["items"]] for each in asked if each]
                answers.append((texts, (await page.explain())["prompt"]))
                page.close()
            assert answers == [answers[0]] * len(answers)
            assert "\\r" not in str(answers[0]) and "\ufeff" not in str(answers[0])


@pytest.mark.parametrize("is_agent", [True, False])
def test_a_client_of_http_gets_the_same(tmp_path: Path, is_agent: bool) -> None:
    with serving(tmp_path) as server:
        for number, marked in enumerate(PLACES):
            answers = list[object]()
            for text in variants(marked):
                before, after = text.split("‸")
                segments = {"prefix": before, "suffix": after, "filepath": f"/somewhere/{number}.py"}
                plain = {"prompt": before, "suffix": after, "max_tokens": 64}
                body = {"language": "python", "segments": segments} if is_agent else plain
                answers.append([each["text"] for each in server.post("/v1/completions", body)["choices"]])
            assert answers == [answers[0]] * len(answers)


@pytest.mark.parametrize("marked", PLACES)
def test_a_command_reads_the_same_text_and_place(tmp_path: Path, marked: str) -> None:
    for text in variants(marked):
        before, after = text.split("‸")
        path = tmp_path / "page.py"
        path.write_bytes((before + after).encode())
        document = read(path)
        lines = marked.split("‸")[0].split("\n")
        cursor, moved = cursor_at(document, FilePlace(path, len(lines), len(lines[-1]) + 1))
        assert (document.text, cursor, moved) == (marked.replace("‸", ""), marked.index("‸"), "")
