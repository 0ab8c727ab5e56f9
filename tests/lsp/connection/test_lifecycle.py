"""From the first message to the exit status: what is advertised to whom, and how a server comes and goes."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from tests.lsp.wire import ENV, GHOST_TEXT, MENU, REAL, STAND_IN, Client, Editor, launched, started
from tests.waiting import HANG


def offering(encodings: object) -> dict[str, object]:
    return {**GHOST_TEXT, "general": {"positionEncodings": encodings}}


@pytest.mark.parametrize(
    ("capabilities", "settings", "menu", "encoding"),
    [
        ({}, None, True, "utf-16"),
        (MENU, None, True, "utf-16"),
        (MENU, {"menu": "never"}, False, "utf-16"),
        (MENU, {"menu": "sometimes"}, True, "utf-16"),
        (offering([]), {"efim-ls": {"menu": "always"}}, True, "utf-16"),
        (offering(["utf-8", "utf-16", "utf-32"]), {"menu": "always"}, True, "utf-8"),
        (offering(["utf-32", "utf-8"]), None, False, "utf-32"),
        (offering(["utf-7", "utf-16"]), None, False, "utf-16"),
    ],
)
async def test_what_is_advertised_to_whom(capabilities, settings, menu, encoding):
    async with launched() as editor:
        answer = await editor.initialize(capabilities, settings)
        assert answer["inlineCompletionProvider"] == {}
        assert ("completionProvider" in answer) == menu
        assert answer["positionEncoding"] == encoding
        assert answer["textDocumentSync"]["change"] == 2 and answer["textDocumentSync"]["openClose"]
        commands = ["efim-ls.accept", "efim-ls.acceptNextEdit", "efim-ls.refuseNextEdit"]
        assert answer["executeCommandProvider"]["commands"] == commands
        assert await editor.close() == 0


async def test_loading_is_shown_where_the_client_can():
    async with started() as editor:
        [reports] = editor.client.progress_reports.values()
        while len(reports) < 3:
            await editor.ask("efim/status")
        begin, report, end = (attrs.asdict(r) for r in reports)
        assert (begin["kind"], report["kind"], end["kind"]) == ("begin", "report", "end")
        assert report["message"] == "half way" and report["percentage"] == 50


async def test_what_was_chosen_and_why_is_logged_once():
    async with started(REAL) as editor:
        [logged] = [m.message for m in editor.client.log_messages if "decoder reason" in m.message.replace("_", " ")]
        assert "embedded" in logged and "attention_reason" in logged


async def test_an_interrupt_ends_the_server_at_once():
    async with launched() as editor:
        await editor.start()
        assert editor.client._server is not None
        editor.client._server.send_signal(signal.SIGINT)
        assert await editor.gone() == 130


async def test_a_saved_text_that_differs_is_adopted():
    async with started() as editor:
        page = editor.open("x = 1\n‸")
        name = {"uri": page.uri}
        editor.tell("textDocument/didSave", {"textDocument": name, "text": "x = 1\n"})
        assert (await page.explain())["prompt"] == "x = 1\n"
        editor.tell("textDocument/didSave", {"textDocument": name, "text": "y = 2\n"})
        assert (await page.explain())["prompt"] == "y = 2\n"
        await editor.logged("now using the saved text")


@pytest.mark.parametrize("capabilities", [{"textDocument": {"inlineCompletion": {}}}, GHOST_TEXT])
async def test_who_does_not_want_progress_is_sent_none(capabilities: dict[str, object]):
    async def refuse(_: object) -> None:
        raise JsonRpcInvalidParams

    async with launched() as editor:
        editor.client.protocol.fm.features["window/workDoneProgress/create"] = refuse
        await editor.initialize(capabilities)
        editor.tell("initialized", {})
        await suggested(editor)
        assert editor.client.progress_reports == {}
        assert await editor.close() == 0
        assert "WARNING" not in editor.stderr


async def test_a_client_that_never_answers_is_not_waited_for():
    silence = asyncio.Event()

    async def create(_: object) -> None:
        await silence.wait()

    async with launched() as editor:
        editor.client.protocol.fm.features["window/workDoneProgress/create"] = create
        await editor.initialize(GHOST_TEXT)
        editor.tell("initialized", {})
        await suggested(editor)
        await editor.ask("shutdown")
        silence.set()
        editor.tell("exit")
        assert await editor.gone() == 0


async def suggested(editor: Editor) -> None:
    """Ask until the model is there."""
    page = editor.open("# say more\n‸")
    async with asyncio.timeout(HANG):
        while await page.item() is None:
            assert (await editor.stats())["last_reason"] == "loading"


async def test_nothing_is_answered_before_initialize_or_twice():
    async with launched() as editor:
        assert await code_of(editor, "efim/status") == -32002
        editor.tell("textDocument/didOpen", {})
        await editor.initialize(GHOST_TEXT)
        assert await code_of(editor, "initialize", {"capabilities": {}, "processId": None, "rootUri": None}) == -32600
        assert await editor.close() == 0


async def test_a_malformed_initialize_is_refused_and_can_be_mended():
    async with launched() as editor:
        editor.client.capabilities = Client().capabilities
        assert await code_of(editor, "initialize", {"capabilities": 5}) == -32602
        await editor.initialize(GHOST_TEXT)
        assert await editor.close() == 0


async def test_requests_after_shutdown_are_refused():
    async with started() as editor:
        page = editor.open("# say more\n‸")
        await editor.ask("shutdown")
        assert await code_of(editor, "textDocument/inlineCompletion", page.place) == -32600
        assert await code_of(editor, "shutdown") == -32600
        editor.tell("exit")
        assert await editor.gone() == 0


async def test_leaving_without_goodbye_is_no_success():
    async with launched() as editor:
        await editor.initialize(GHOST_TEXT)
        editor.tell("exit")
        assert await editor.gone() == 1


async def test_an_end_of_input_ends_the_server():
    done = await asyncio.to_thread(subprocess.run, STAND_IN, env=ENV, stdin=subprocess.DEVNULL, timeout=HANG)
    assert done.returncode == 1


@pytest.mark.parametrize("command", [REAL, STAND_IN], ids=["real", "stand-in"])
async def test_shutdown_answers_and_stops_work_in_flight(command):
    async with launched(command) as editor:
        await editor.start()
        page = editor.open("# block\n" + "def f(x):\n    return x * f(x)\n\n\n" * 500 + "def g(y):\n    return ‸")
        with editor.in_one_packet():  # else it may be answered before
            _, answer = page.ask()
            _, shutdown = editor.send("shutdown")
        await shutdown
        editor.tell("exit")
        assert await editor.gone() == 0
        with pytest.raises(JsonRpcException) as caught:
            await answer
        assert caught.value.code == -32800
    assert "ERROR" not in editor.stderr


async def test_shutdown_does_not_wait_for_a_model_that_is_being_loaded():
    async with launched(REAL) as editor:
        await editor.initialize(GHOST_TEXT)
        with editor.in_one_packet():  # else it may be loaded before it is asked for
            editor.tell("initialized", {})
            _, status = editor.send("efim/status")
            _, shutdown = editor.send("shutdown")
        assert (await status)["state"] == "loading"
        await shutdown
        editor.tell("exit")
        assert await editor.gone() == 0


async def test_work_that_does_not_stop_is_left_behind():
    async with launched() as editor:
        await editor.start()
        _, answer = editor.open("# deaf\n‸").ask()
        await editor.logged("computing")
        assert await editor.close() == 0
        with pytest.raises(JsonRpcException):
            await answer
    assert "terminate" not in editor.stderr


async def test_what_is_no_message_is_answered_and_the_server_goes_on():
    async with launched() as editor:
        await editor.initialize(GHOST_TEXT)
        for number in (7, "seven"):
            assert await reply(editor, number, {"id": number, "method": "efim/status"}) == -32600
        for strange in ([1, 2], {"a": 1}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 1.5, "method": 2}):
            assert await reply(editor, None, strange) == -32600
        for body in (b"{", b"\xff\xfe", b"[" * 100_000):
            assert await reply(editor, None, b"Content-Length: %d\r\n\r\n" % len(body) + body) == -32700
        assert await editor.ask("efim/status")
        assert editor.messages == []
        assert await editor.close() == 0


async def reply(editor: Editor, number: Any, message: Any) -> int:
    """The code of the error that a message is answered with, under its number or under none."""
    editor.client.protocol._request_futures[number] = answer = Future()
    editor.post_bytes(message) if isinstance(message, bytes) else editor.post(message)
    with pytest.raises(JsonRpcException) as caught:
        await asyncio.wait_for(asyncio.wrap_future(answer), HANG)
    return caught.value.code


async def test_inner_objects_that_look_like_messages_are_none():
    settings = {"efim-ls": {"jsonrpc": "2.0", "id": 1, "method": "shutdown"}}
    async with started(settings=settings) as editor:
        assert len(editor.messages) == 3, "three unknown settings"


async def test_stray_output_goes_to_stderr():
    async with started() as editor:
        await editor.logged("stray print\n")
        await editor.logged("stray write\n")


@asynccontextmanager
async def over_tcp() -> AsyncIterator[tuple[Editor, int]]:
    server = await asyncio.create_subprocess_exec(*STAND_IN, "0", stderr=asyncio.subprocess.PIPE, env=ENV)
    try:
        assert server.stderr is not None
        port = re.search(rb"127\.0\.0\.1:(\d+)", await server.stderr.readline())
        assert port is not None
        client = Client()
        await client.start_tcp("127.0.0.1", int(port[1]))
        editor = Editor(client)
        await editor.start()
        yield editor, int(port[1])
        await editor.ask("shutdown")
        editor.tell("exit")
        assert await asyncio.wait_for(server.wait(), HANG) == 0
    finally:
        if server.returncode is None:
            server.kill()


async def test_a_local_port_serves_one_client():
    async with over_tcp() as (editor, port):
        assert await editor.open("# say it\n‸").ghost() == "it"
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_over_a_port_too_a_request_sees_no_later_edit():
    async with over_tcp() as (editor, _):
        page = editor.open("# say early\n‸")
        with editor.in_one_packet():
            _, answer = page.ask()
            page.edit(6, 11, "late")
        assert (await answer)["items"][0]["insertText"] == "early"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_over_a_port_too_a_signal_ends_it_once_all_is_kept(number: signal.Signals):
    server = await asyncio.create_subprocess_exec(*STAND_IN, "0", stderr=asyncio.subprocess.PIPE, env=ENV)
    assert server.stderr is not None and b"listening" in await server.stderr.readline()
    server.send_signal(number)
    assert await asyncio.wait_for(server.wait(), HANG) == 128 + number


async def test_a_port_that_is_taken_is_a_clear_failure():
    listener = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    command = (*REAL, "--tcp", str(port))
    done = await asyncio.to_thread(subprocess.run, command, env=ENV, capture_output=True, timeout=HANG)
    listener.close()
    assert done.returncode == 1
    assert str(port).encode() in done.stderr and b"Traceback" not in done.stderr


def test_on_a_terminal_it_says_what_it_is():
    if sys.platform == "win32":
        pytest.skip("no pseudo-terminals")
    import pty

    _, terminal = pty.openpty()
    done = subprocess.run(REAL, env=ENV, stdin=terminal, capture_output=True, timeout=HANG)
    assert done.returncode == 2
    assert b"language server" in done.stderr and done.stdout == b""


async def code_of(editor: Editor, method: str, params: object = None) -> int:
    with pytest.raises(JsonRpcException) as caught:
        await editor.ask(method, params)
    return caught.value.code
