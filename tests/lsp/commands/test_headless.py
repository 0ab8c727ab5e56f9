"""The headless editor against the real server: JSON Lines through a process, and the client's own edges."""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from editor_clients.headless.client import Editor, editor
from editor_clients.headless.connection import Connection, ServerDied
from editor_clients.headless.ops import Refused, Session
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.lsp.wire import STAND_IN
from tests.waiting import HANG, loop_at_rest

HEADLESS = [sys.executable, "-m", "efim_ls", "headless"]
LINE = "total = alpha + beta + gamma\n"
AREA = "def area(width, height):\n    return width * height\n\n\ndef edge(wid"  # what comes is plain: "th, height"


class Asker:
    """A headless process that is asked one line at a time."""

    def __init__(self, *options: str, folder: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [*HEADLESS, *options], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._guard = threading.Timer(HANG, self.process.kill)
        self._guard.start()

    def line(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __call__(self, op: str, **fields: object) -> dict[str, Any]:
        answer = self.line(json.dumps({"id": op, "op": op, **fields}))
        assert answer.pop("id") == op
        return answer

    def end(self) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.stdout.read() == ""
        self._guard.cancel()
        return self.process.wait()


@pytest.fixture(scope="module")
def ask() -> Iterator[Asker]:
    asker = Asker()
    yield asker
    assert asker.end() == 0


def whole_text(ask: Asker, path: str, length: int) -> str:
    """What the server takes the document to be: at its end all of it is before the cursor."""
    explanation = ask("explain", path=path, at=length)["explanation"]
    return explanation["head"] + explanation["typed"]


@pytest.mark.parametrize(("name", "reason"), [("n.zig", None), ("n.txt", "language off"), ("n", "language off")])
def test_a_suffix_names_the_language(ask: Asker, name: str, reason: str | None):
    ask("open", path=name, text=AREA)
    answer = ask("complete", path=name, at=len(AREA))
    assert answer["reason"] == reason
    assert (answer["notice"] is not None and "knows Zig" in answer["notice"]) == (name == "n.zig")
    ask("close", path=name)


def test_an_accepted_suggestion_is_in_the_document(ask: Asker):
    text = AREA
    assert ask("open", path="a.py", text=text) == {"ok": True}
    answer = ask("complete", path="a.py", at=len(text))
    assert answer["reason"] is None
    assert answer["text"].startswith("th, height")
    assert answer["costs"]["frame"] == "new"
    assert answer["costs"]["recomputed"] > 0
    accepted = ask("accept", path="a.py")
    text += answer["text"]
    assert accepted == {"ok": True, "inserted": answer["text"], "at": len(text)}
    assert whole_text(ask, "a.py", len(text)) == text
    assert ask("close", path="a.py") == {"ok": True}


def test_typing_on_recomputes_next_to_nothing(ask: Asker):
    text = LINE * 20
    ask("open", path="b.py", text=text)
    first = ask("complete", path="b.py", at=len(text))["costs"]
    ask("edit", path="b.py", at=len(text), delete=0, insert="t")
    second = ask("complete", path="b.py", at=len(text) + 1)["costs"]
    assert second["frame"] == "kept"
    assert second["recomputed"] <= 2 < 100 < first["recomputed"] + first["reused"]


def test_a_cursor_that_rests_finds_its_frame_computed(ask: Asker):
    text = LINE * 20
    at = len(LINE) * 5 - 1
    ask("open", path="k.py", text=text)
    ask("complete", path="k.py", at=len(text))
    ask("settle")
    before = ask("stats")["stats"]["ahead"]["tokens"]
    assert ask("move", path="k.py", at=at) == {"ok": True}
    assert ask("settle") == {"ok": True}
    assert ask("stats")["stats"]["ahead"]["tokens"] > before
    assert ask("complete", path="k.py", at=at)["costs"]["recomputed"] == 0


def test_a_suggestion_is_accepted_in_parts(ask: Asker):
    text = AREA
    ask("open", path="c.py", text=text)
    suggestion = ask("complete", path="c.py", at=len(text))["text"]
    before = ask("stats")["stats"]
    assert ask("accept", path="c.py", length=3) == {"ok": True, "inserted": "th,", "at": len(text) + 3}
    assert ask("stats")["stats"]["partially_accepted"] == before["partially_accepted"] + 1
    assert ask("accept", path="c.py", length=1)["inserted"] == suggestion[3:4]
    assert ask("accept", path="c.py")["inserted"] == suggestion[4:]
    after = ask("stats")["stats"]
    assert after["accepted"] == before["accepted"] + 1
    ask("close", path="c.py")
    judged = ask("stats")["stats"]["characters_accepted"]
    assert judged == before["characters_accepted"] + len(suggestion)
    ask("open", path="c.py", text=text + suggestion)
    assert ask("accept", path="c.py")["error"]["code"] == "no-suggestion"
    whole = text + suggestion
    assert whole_text(ask, "c.py", len(whole)) == whole


def test_an_edit_takes_the_suggestion_back(ask: Asker):
    text = AREA
    ask("open", path="d.py", text=text)
    assert ask("complete", path="d.py", at=len(text))["text"]
    ask("edit", path="d.py", at=0, delete=0, insert="#")
    assert ask("accept", path="d.py")["error"]["code"] == "no-suggestion"


def test_no_suggestion_comes_with_its_reason(ask: Asker):
    ask("open", path="e.py", text="x = '\0'")
    answer = ask("complete", path="e.py", at=7)
    assert (answer["text"], answer["reason"]) == ("", "binary text")


def test_a_text_left_out_is_read_from_disk(ask: Asker, tmp_path: Path):
    path = tmp_path / "größe.py"
    path.write_bytes("\ufeffgröße = 1\r\n".encode())
    ask("open", path=str(path))
    assert whole_text(ask, str(path), 11) == "größe = 1\n"


def test_no_cursor_is_within_a_line_end(ask: Asker):
    ask("open", path="j.py", text="a\r\nb")
    assert ask("complete", path="j.py", at=2)["error"]["code"] == "out-of-range"
    assert ask("edit", path="j.py", at=2, insert="x") == {"ok": True}
    assert whole_text(ask, "j.py", 5) == "a\nx\nb"


def test_opening_again_replaces_the_text(ask: Asker):
    ask("open", path="f.py", text="one")
    ask("open", path="f.py", text="two!")
    assert whole_text(ask, "f.py", 4) == "two!"


@pytest.mark.parametrize("seed", range(4))
def test_both_sides_hold_the_same_text_whatever_is_edited(ask: Asker, seed: int):
    dice = random.Random(seed)
    text = "é\r\n😀 = 1\r\r\n\n\x0cx\u2028y\n"
    ask("open", path="g.py", text=text)
    for _ in range(25):
        at = dice.randint(0, len(text))
        delete = dice.randint(0, min(3, len(text) - at))
        insert = "".join(dice.choices(["a", "😀", "\r", "\n", "\r\n", "\x0b", "ß"], k=dice.randint(0, 3)))
        assert ask("edit", path="g.py", at=at, delete=delete, insert=insert) == {"ok": True}
        text = text[:at] + insert + text[at + delete :]
    assert whole_text(ask, "g.py", len(text)) == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ('{"id": NaN, "op": "settle"}', None, "bad-json"),
        ('{"id": [-1e999], "op": "settle"}', None, "bad-json"),
        ("{", None, "bad-json"),
        ("", None, "bad-json"),
        ("[" * 100_000, None, "bad-json"),
        ("[]", None, "bad-request"),
        ('{"id": 1}', 1, "bad-request"),
        ('{"id": [1], "op": 5}', [1], "bad-request"),
        ('{"id": 2, "op": "dance"}', 2, "unknown-op"),
        ('{"op": "dance"}', None, "unknown-op"),
        ('{"id": 3, "op": "open"}', 3, "bad-request"),
        ('{"id": 3, "op": "open", "path": "x.py", "text": null}', 3, "bad-request"),
        ('{"id": 3, "op": "open", "path": "x.py", "text": "\\ud800"}', 3, "bad-request"),
        ('{"id": 3, "op": "open", "path": "no/such/file.py"}', 3, "unreadable"),
        ('{"id": 3, "op": "open", "path": "/dev/null"}', 3, "unreadable"),
        ('{"id": 4, "op": "close", "path": "never.py"}', 4, "unknown-document"),
        ('{"id": 5, "op": "edit", "path": "h.py", "at": "0"}', 5, "bad-request"),
        ('{"id": 5, "op": "edit", "path": "h.py", "at": true}', 5, "bad-request"),
        ('{"id": 5, "op": "edit", "path": "h.py", "at": 0, "delete": -1}', 5, "bad-request"),
        ('{"id": 5, "op": "edit", "path": "h.py", "at": 4}', 5, "out-of-range"),
        ('{"id": 5, "op": "edit", "path": "h.py", "at": -1}', 5, "out-of-range"),
        ('{"id": 5, "op": "edit", "path": "h.py", "at": 1, "delete": 3}', 5, "out-of-range"),
        ('{"id": 6, "op": "complete", "path": "h.py", "at": 4}', 6, "out-of-range"),
        ('{"id": 7, "op": "accept", "path": "h.py"}', 7, "no-suggestion"),
        ('{"id": 8, "op": "move", "path": "h.py"}', 8, "bad-request"),
        ('{"id": 8, "op": "move", "path": "h.py", "at": 4}', 8, "out-of-range"),
        ('{"id": 8, "op": "move", "path": "never.py", "at": 0}', 8, "unknown-document"),
        ('{"id": 9, "op": "focus", "path": "never.py"}', 9, "unknown-document"),
    ],
)
def test_a_bad_line_is_refused_and_the_next_one_served(ask: Asker, line: str, number: object, code: str):
    ask("open", path="h.py", text="abc")
    answer = ask.line(line)
    assert (answer["id"], answer["error"]["code"]) == (number, code)
    assert whole_text(ask, "h.py", 3) == "abc"


def test_a_length_outside_the_suggestion_is_refused(ask: Asker):
    text = AREA
    ask("open", path="i.py", text=text)
    length = len(ask("complete", path="i.py", at=len(text))["text"])
    for wrong in (0, -1, length + 1):
        assert ask("accept", path="i.py", length=wrong)["error"]["code"] == "out-of-range"
    assert ask("accept", path="i.py", length=length)["ok"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(number: signal.Signals):
    asker = Asker()
    assert asker("stats")["ok"]
    asker.process.send_signal(number)
    assert asker.process.wait() == 0
    assert asker.end() == 0


def test_a_folder_is_named_from_where_the_command_runs(tmp_path: Path):
    """The server, which other editors may have started, runs elsewhere."""
    shutil.copytree(EMBEDDED, tmp_path / "mine" / "coder")
    ask = Asker("--model", "mine/coder", folder=tmp_path)
    ask("open", path="a.py", text=AREA)
    answer = ask("complete", path="a.py", at=len(AREA))
    assert (answer["reason"], answer["notice"]) == (None, None)
    assert answer["text"].startswith("th, height")
    assert ask.end() == 0


def test_a_model_that_is_not_there_is_a_clear_error():
    done = subprocess.run([*HEADLESS, "--model", "no/such/model"], input="", capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "no/such/model" in done.stderr


class OneShotResult(Connection):
    """A connection without a server that remembers its notifications."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, Any]] = []

    def tell(self, method: str, params: Any = None) -> None:
        self.told.append((method, params))


def test_moves_and_looks_are_told_as_the_server_reads_them():
    told = OneShotResult()
    headless = Editor(told)
    headless.open("file:///a.py", "x = 1\n😀 = 2\n", "python")
    headless.move("file:///a.py", 8)
    headless.focus("file:///a.py")
    document = {"textDocument": {"uri": "file:///a.py"}}
    assert told.told[1:] == [
        ("efim/didMoveCursor", document | {"position": {"line": 1, "character": 2}}),
        ("textDocument/didFocus", document),
    ]


async def test_next_edits_are_offered_made_and_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(Connection, "command", STAND_IN)
    text, path = "w = width\r\n😀 = width\r\nh = width\r\n", str(tmp_path / "a.py")
    async with editor({"shared": False}) as headless:
        session, uri = Session(headless), Path(path).as_uri()

        async def ask(op: str, **fields: object) -> dict[str, Any]:
            return await session.answer({"op": op, **fields})

        await ask("open", path=path, text=text)
        assert await ask("next_edit", path=path, at=0) == {"ok": True, "edit": None}
        with pytest.raises(Refused, match="no next edit"):
            await ask("accept_edit")
        await ask("edit", path=path, at=4, delete=5, insert="depth")
        second = {"path": path, "at": text.index("width", 9), "delete": 5, "insert": "depth"}
        assert await ask("next_edit", path=path, at=0) == {"ok": True, "edit": second}
        assert await ask("accept_edit") == {"ok": True, "edit": second}
        assert headless.text(uri) == "w = depth\r\n😀 = depth\r\nh = width\r\n"
        third = {**second, "at": text.rindex("width")}
        assert await ask("next_edit", path=path, at=0) == {"ok": True, "edit": third}
        await ask("edit", path=path, at=0, delete=0, insert="#")
        with pytest.raises(Refused, match="changed since"):
            await ask("accept_edit")
        await ask("edit", path=path, at=0, delete=1)
        await ask("edit", path=path, at=4, delete=5, insert="width")
        await ask("edit", path=path, at=4, delete=5, insert="depth")
        assert (await ask("next_edit", path=path, at=0))["edit"] is not None
        assert await ask("refuse_edit") == {"ok": True}
        assert await ask("next_edit", path=path, at=0) == {"ok": True, "edit": None}
        counts = (await ask("stats"))["stats"]["next_edits"]
    assert (counts["shown"], counts["accepted"]) == (2, 1)


async def test_a_next_edit_in_another_file_opens_it(tmp_path: Path):
    definition, call = "def load(path, mode):\n    return path\n", "from shelf import load\n\nload('größe 🙂', 1)\n"
    shelf, app = tmp_path / "shelf.py", tmp_path / "app.py"
    shelf.write_text(definition, "utf-8")
    app.write_text(call, "utf-8")
    async with editor({"shared": False, "suggestions": "on request"}, folder=tmp_path) as headless:
        session = Session(headless)
        await session.answer({"op": "settle"})
        await session.answer({"op": "open", "path": str(shelf)})
        at = definition.index(", mode")
        await session.answer({"op": "edit", "path": str(shelf), "at": at, "delete": len(", mode")})
        answer = await session.answer({"op": "next_edit", "path": str(shelf), "at": at})
        assert answer["edit"] == {"path": str(app), "at": call.index(", 1"), "delete": len(", 1"), "insert": ""}
        await session.answer({"op": "accept_edit"})
        assert headless.text(app.as_uri()) == call.replace(", 1", "")
        counts = (await session.answer({"op": "stats"}))["stats"]["next_edits"]
    assert (counts["shown"], counts["accepted"]) == (1, 1)


async def test_a_cancelled_request_leaves_the_editor_usable(caplog: pytest.LogCaptureFixture):
    text = LINE * 100 + AREA  # reading it takes the model longer than the cancellation needs
    async with editor({"suggestions": 0}) as headless:
        headless.open("file:///a.py", text, "python")
        abandoned = asyncio.create_task(headless.complete("file:///a.py", len(text)))
        await loop_at_rest()
        abandoned.cancel()
        with pytest.raises(asyncio.CancelledError):
            await abandoned
        assert (await headless.complete("file:///a.py", len(text))).text.startswith("th, height")
        answered = (await headless.stats())["answered"]
    assert answered == {"suggestion": 1} | ({"cancelled": 1} if "cancelled" in answered else {})
    assert caplog.records == []


@pytest.mark.parametrize("code", ["import sys; sys.exit('out of luck')", "print('Content-Length: 9\\r\\n\\r\\n{')"])
async def test_a_server_that_dies_is_named_with_its_last_words(monkeypatch: pytest.MonkeyPatch, code: str):
    monkeypatch.setattr(Connection, "command", (sys.executable, "-c", code))
    with pytest.raises(ServerDied, match="exited with code") as error:
        async with editor({}):
            pass
    assert ("out of luck" in str(error.value)) == ("luck" in code)


def test_the_models_probability_comes_with_the_answer(ask: Asker):
    ask("open", path="sure.py", text=AREA)
    answer = ask("complete", path="sure.py", at=len(AREA))
    assert 0 < answer["confidence"] <= 1
    ask("edit", path="sure.py", at=len(AREA), insert=answer["text"][0])
    rest = ask("complete", path="sure.py", at=len(AREA) + 1)  # the model was not asked
    assert rest["costs"]["known"] > 0 and answer["confidence"] <= rest["confidence"] <= 1
    ask("close", path="sure.py")


async def test_a_name_of_a_module_is_explained_as_from_there(tmp_path: Path):
    """It stands in place of the model's guess, and still does once a part of it is typed."""
    text, uri = "import csv\n\ncsv.reg", (tmp_path / "a.py").as_uri()
    async with editor({"suggestions": "more"}, folder=tmp_path) as headless:
        headless.open(uri, text, "python")
        await headless.settled()
        for typed, left in (("", "ister_dialect"), ("i", "ster_dialect")):
            headless.edit(uri, len(text), 0, typed)
            at = len(text) + len(typed)
            completion = await headless.complete(uri, at)
            assert completion.text == left
            told = (await headless.explain(uri, at))["suggestion"]
            word = {"text": left, "probability": completion.confidence, "model": None, "file": None}
            word |= {"repository": None, "from": [], "source": "from csv in the standard library"}
            assert told == {"shown": left, "hidden": "", "words": [word]}
