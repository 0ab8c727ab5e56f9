"""One editor with ghost text and the real model: what is suggested, and what never breaks the server."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from pygls.exceptions import JsonRpcException

from tests.lsp.wire import ALONE, Editor, Page, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

AREA = '''"""Areas of figures."""
import math


def circle(radius):
    """The area of a circle."""
    return math.pi * radius ** 2


def square(side):
    """The area of a square."""
    return side ** 2


def ring(radius, hole):
    """The area of a ring."""
    return circle(rad‸)


def cube(side):
    return 6 * square(side)
'''
OUTCOMES = {None, "empty", "duplicate", "no fit"}  # what may become of a request that reached the model


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(ALONE, settings={"suggestions": 0}) as editor:
        yield editor
    assert "ERROR" not in editor.stderr
    assert "unknown message id" not in editor.stderr, "of a cancellation that crossed its answer"
    assert "$/nothing" not in editor.stderr
    assert editor.messages == []


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_stays_open(editor: Editor):
    yield
    editor.close_pages()


async def test_a_file_gets_ghost_text_at_the_cursor(editor: Editor):
    page = editor.open(AREA)
    item = await page.item()
    assert item is not None and item["insertText"].startswith("ius")
    at = page.position(page.cursor)
    assert item["range"] == {"start": at, "end": at}
    assert item["command"]["command"] == "efim-ls.accept" and item["command"]["title"]


@pytest.mark.parametrize(
    "extra",
    [
        {"context": {"triggerKind": 0}},
        {"context": {"triggerKind": 1}},
        {"context": {"triggerKind": 2}},
        {"context": {}},
        {"context": {"triggerKind": 2, "selectedCompletionInfo": {"range": [{}, {}], "text": "radius"}}},
        {},
    ],
)
async def test_trigger_kinds_as_clients_really_send_them(editor: Editor, extra):
    page = editor.open(AREA)
    assert await editor.ask("textDocument/inlineCompletion", {**page.place, **extra})


async def test_typing_on_reuses_what_was_computed(editor: Editor):
    page = editor.open(AREA)
    await page.ghost()
    page.type("iu")
    assert (await page.ghost() or "").startswith("s")
    last = (await editor.stats())["last"]
    assert last["frame"] == "kept"
    assert last["reused"] > last["recomputed"]


async def test_requests_of_other_documents_supersede_nothing(editor: Editor):
    pages = [editor.open(AREA), editor.open(AREA, language="Python")]
    answers = await asyncio.gather(*(page.ghost() for page in pages))
    assert all(answers)


async def test_cancelling_what_was_answered_is_ignored(editor: Editor):
    page = editor.open(AREA)
    number, answer = page.ask()
    await answer
    editor.tell("$/cancelRequest", {"id": number})
    assert await page.ghost()


async def test_a_document_that_is_not_open_gets_null(editor: Editor):
    place = {"textDocument": {"uri": "file:///never.py"}, "position": {"line": 0, "character": 0}}
    assert await editor.ask("textDocument/inlineCompletion", place) is None
    assert (await editor.stats())["last_reason"] == "unknown document"
    assert (await editor.ask("efim/explain", place))["reason"] == "unknown document"


async def test_a_change_of_a_document_that_is_not_open_is_only_logged(editor: Editor):
    page = Page(editor, "file:///unopened.py", "text", 4)
    page.type("more")
    assert await page.item() is None
    await editor.logged("not open")


async def test_a_closed_document_is_forgotten(editor: Editor):
    page = editor.open(AREA)
    assert await page.ghost()
    page.close()
    assert await page.item() is None


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        5,
        {},
        {"textDocument": {"uri": "file:///a.py"}},
        {"textDocument": {}, "position": {"line": 0, "character": 0}},
        {"textDocument": {"uri": "file:///a.py"}, "position": {"line": -1, "character": 0}},
        {"textDocument": {"uri": "file:///a.py"}, "position": {"line": "one", "character": 0}},
        {"textDocument": {"uri": "file:///a.py"}, "position": [1, 0]},
    ],
)
async def test_malformed_params_are_answered_with_an_error(editor: Editor, params):
    for method in ("textDocument/inlineCompletion", "efim/explain"):
        with pytest.raises(JsonRpcException) as caught:
            await editor.ask(method, params)
        assert caught.value.code == -32602
    assert await editor.open(AREA).ghost()


@pytest.mark.parametrize("method", ["textDocument/didOpen", "textDocument/didChange", "textDocument/didClose"])
async def test_a_message_that_names_no_document_is_logged_and_shown(method: str):
    async with started(ALONE, settings={"suggestions": 0}) as editor:
        editor.tell(method, {"textDocument": 5})
        assert await editor.open(AREA).ghost()
        await editor.logged("a message about a document's text cannot be understood")
        [shown] = editor.messages
        assert "cannot be understood" in shown


async def test_an_unknown_method_is_answered_so(editor: Editor):
    for method in ("textDocument/hover", "efim/nothing", "$/nothing"):
        with pytest.raises(JsonRpcException) as caught:
            await editor.ask(method, {})
        assert caught.value.code == -32601


async def test_unknown_notifications_are_ignored(editor: Editor):
    for method in ("textDocument/nothing", "$/nothing"):
        editor.tell(method, {"any": "thing"})
    assert await editor.open(AREA).ghost()


@pytest.mark.parametrize(
    "marked",
    [
        pytest.param("‸", id="empty file"),
        pytest.param("\n‸", id="an empty line"),
        pytest.param("x = [" + "1234, " * 2000 + "‸", id="end of a line of 12,000 characters"),
        pytest.param("x = [" + "1234, " * 900 + "‸" + "1234, " * 900 + "]\n", id="middle of one of 10,000"),
        pytest.param("word" * 3000 + "‸", id="a word of 12,000 characters"),
        pytest.param("def f(x):\n    return x\n\n\n" * 100_000 + "def g(y):\n    ‸", id="2.5 MB"),
        pytest.param("def f(x):\r\n    return ‸\r\n", id="CRLF"),
        pytest.param("def f(x):\r    return ‸\r", id="CR"),
        pytest.param("a\x0cb\u2028c\x85d\ndef f(x):\n    return ‸", id="characters that end no line"),
        pytest.param("x = '\ud800'\ny = ‸", id="half a surrogate pair"),
    ],
)
async def test_odd_files_are_completed_like_others(editor: Editor, marked):
    page = editor.open(marked)
    ghost = await page.ghost()
    stats = await editor.stats()
    assert stats["last_uri"] == page.uri
    assert stats["last_reason"] in OUTCOMES | {"line too long"}
    assert ghost is None or "\r" not in ghost
    page.type("a")
    explained = await page.explain()
    read = page.text.replace("\r\n", "\n").replace("\r", "\n").replace("\ud800", "\ufffd")
    assert explained["typed"] + explained["rest"] in read


async def test_a_binary_file_gets_none(editor: Editor):
    page = editor.open("\x7fELF\0\0\0\1 code ‸ \0\0")
    assert await page.item() is None
    assert (await editor.stats())["last_reason"] == "binary text"


async def test_a_file_may_vanish_from_the_disk(editor: Editor, tmp_path):
    path = tmp_path / "gone.py"
    path.write_text("x")
    page = editor.open(AREA, path.as_uri())
    path.unlink()
    assert await page.ghost()


async def test_a_position_beyond_the_end_is_taken_for_the_end(editor: Editor):
    page = editor.open(AREA)
    await editor.ask("textDocument/inlineCompletion", {**page.place, "position": {"line": 999, "character": 0}})
    stats = await editor.stats()
    assert stats["last_uri"] == page.uri and stats["last_reason"] in OUTCOMES


async def test_explain_tells_the_prompt_and_its_costs_and_changes_nothing(editor: Editor):
    page = editor.open("# explained\n" + AREA)
    explained = await page.explain()
    fields = {"prompt", "head", "tail", "typed", "rest", "costs", "reason", "why", "notice", "suggestion"}
    assert set(explained) == fields | {"parts", "spent", "other_files", "next_edit", "sections"}
    assert explained["suggestion"] is None
    assert "".join(part["text"] for part in explained["parts"]) == explained["prompt"]
    assert (explained["head"] + explained["typed"]).endswith('"""The area of a ring."""\n    return circle(rad')
    assert explained["rest"] == ")"
    assert explained["reason"] is None
    assert explained["costs"]["recomputed"] > 0
    assert (await page.explain())["costs"] == explained["costs"]


async def test_explain_tells_what_the_last_answer_here_cost(editor: Editor):
    page = editor.open("# spent\n" + AREA)
    assert (await page.explain())["spent"] is None
    assert await page.ghost()
    told = await page.explain()
    assert told["spent"]["recomputed"] > 0 == told["costs"]["recomputed"]
    recomputed = [part["tokens"] for part in told["parts"] if part["cost"] == "recomputed"]
    assert sum(recomputed) == told["spent"]["recomputed"]


async def test_status_says_what_runs_and_why(editor: Editor):
    status = await editor.ask("efim/status")
    assert status["state"] == "ready" and status["message"]
    assert {"model", "device", "weights", "attention"} <= set(status)


async def test_stats_add_up(editor: Editor):
    before = await editor.stats()
    page = editor.open("# that no other test has opened\n" + AREA)
    await page.ghost()
    await page.ghost()
    after = await editor.stats()
    assert after["requests"] - before["requests"] == 2
    assert after["answered"]["suggestion"] - before["answered"]["suggestion"] == 2
    assert sum(after["answered"].values()) == after["requests"]
    assert after["tokens"]["recomputed"] > before["tokens"]["recomputed"]
    assert after["tokens"]["reused"] > before["tokens"]["reused"]
    assert 0 < after["ms"]["p50"] <= after["ms"]["p95"]
    assert after["last_uri"] == page.uri
    assert after["last_reason"] is None
    assert {"frame", "head", "tail", "typed", "reused", "recomputed", "new_tokens", "ms"} <= set(after["last"])
    assert after["last"]["ms"]["total"] > 0
