"""An editor for tests: JSON in, JSON out, over the stdio of a real server process."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.io_ import StdoutWriter, run_async
from pytest_lsp import ClientServerConfig, LanguageClient
from pytest_lsp.client import register_lsp_features

from tests.processes import forks
from tests.waiting import HANG

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}  # prints are kept back, as at a user's
REAL = (sys.executable, "-m", "efim_ls", "serve")  # as editors start it: a relay to a daemon, unless it is alone
ALONE = (sys.executable, "-c", "import sys; from efim_ls.lsp.server import serve; sys.exit(serve())")
PATIENT = (sys.executable, str(Path(__file__).with_name("serve_patient.py")))
STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))

GHOST_TEXT: dict[str, Any] = {"textDocument": {"inlineCompletion": {}}, "window": {"workDoneProgress": True}}
MENU = {"textDocument": {"completion": {}}, "window": {"workDoneProgress": True}}

numbers = itertools.count(1)


class Client(LanguageClient):
    """Keeps what the server writes to stderr, and leaves custom results plain."""

    def __init__(self) -> None:
        super().__init__(converter_factory=get_converter)
        self.stderr = b""
        self.wrote = asyncio.Event()
        register_lsp_features(self)

    async def start_io(self, cmd: str, *args: str, **kwargs: Any) -> None:
        """Start a server as pygls does, but fork one that is Python code or a Python file, which is quicker."""
        if cmd == sys.executable and args[0] != "-m":
            server = await forks.start(args, kwargs["env"])
        else:
            server = await asyncio.create_subprocess_exec(cmd, *args, stdin=PIPE, stdout=PIPE, stderr=PIPE, **kwargs)
        assert server.stdin is not None and server.stdout is not None
        self._server: Any = server
        self.protocol.set_writer(server.stdin)
        streams = {"reader": server.stdout, "protocol": self.protocol, "error_handler": self.report_server_error}
        self._async_tasks.append(asyncio.create_task(run_async(stop_event=self._stop_event, **streams)))
        self._async_tasks.append(asyncio.create_task(self._server_exit()))
        self._stderr_forwarder = asyncio.create_task(self._keep_stderr())

    async def _keep_stderr(self) -> None:
        assert self._server is not None and self._server.stderr is not None
        while chunk := await self._server.stderr.read(1 << 16):
            self.stderr += chunk
            self.wrote.set()
            sys.stderr.write(chunk.decode(errors="replace"))


class Editor:
    def __init__(self, client: Client, is_alone: bool = True) -> None:
        self.client, self.encoding, self.is_alone = client, "utf-16", is_alone
        self.pages: list[Page] = []

    @property
    def messages(self) -> list[str]:
        """What the user was shown."""
        return [m.message for m in self.client.messages]

    @property
    def stderr(self) -> str:
        return self.client.stderr.decode(errors="replace")

    async def logged(self, words: str, times: int = 1) -> None:
        """Wait for words on stderr, which is no faster than the answers."""
        async with asyncio.timeout(HANG):
            while self.stderr.count(words) < times:
                self.client.wrote.clear()
                await self.client.wrote.wait()

    async def initialize(
        self, capabilities: Mapping[str, Any], settings: object = None, **more: object
    ) -> dict[str, Any]:
        params = {"processId": None, "rootUri": None, "capabilities": capabilities}
        params["initializationOptions"] = alone(settings) if self.is_alone else settings
        params |= more
        self.client.capabilities = get_converter().structure(capabilities, types.ClientCapabilities)
        result = await self.ask("initialize", params)
        self.encoding = result["capabilities"]["positionEncoding"]
        return result["capabilities"]

    async def start(
        self, capabilities: Mapping[str, Any] = GHOST_TEXT, settings: object = None, **more: object
    ) -> dict[str, Any]:
        """Initialize and wait for the model."""
        answer = await self.initialize(capabilities, settings, **more)
        self.tell("initialized", {})
        await self.loaded()
        return answer

    async def loaded(self) -> None:
        while True:
            news = self.client.protocol.wait_for_notification_async("$/progress")
            if (await self.ask("efim/status"))["state"] != "loading":
                self.client.protocol._notification_futures.pop("$/progress", None)
                return
            await asyncio.wait_for(news, HANG)

    async def ask(self, method: str, params: object = None) -> Any:
        return await self.send(method, params)[1]

    def send(self, method: str, params: object = None) -> tuple[str, asyncio.Future[Any]]:
        """Send a request just as it is; returns its number and what becomes of it."""
        number, answer = f"test-{next(numbers)}", Future()
        self.client.protocol._request_futures[number] = answer
        self.post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number, asyncio.ensure_future(asyncio.wait_for(asyncio.wrap_future(answer), HANG))

    def tell(self, method: str, params: object = None) -> None:
        self.post({"jsonrpc": "2.0", "method": method, "params": params})

    def post(self, message: object) -> None:
        self.client.protocol._send_data(message)

    def post_bytes(self, data: bytes) -> None:
        assert self.client.protocol.writer is not None
        self.client.protocol.writer.write(data)

    @contextmanager
    def in_one_packet(self) -> Iterator[None]:
        """Send what is sent meanwhile all at once."""
        writer, packet = self.client.protocol.writer, BytesIO()
        self.client.protocol.writer = StdoutWriter(packet)
        yield
        self.client.protocol.writer = writer
        self.post_bytes(packet.getvalue())

    async def stats(self) -> dict[str, Any]:
        return await self.ask("efim/stats")

    def open(self, marked: str, uri: str = "", language: str = "python") -> Page:
        """Open a document whose cursor is at ‸."""
        cursor = marked.index("‸")
        page = Page(self, uri or f"file:///page{next(numbers)}.py", marked.replace("‸", "", 1), cursor)
        item = {"uri": page.uri, "languageId": language, "version": 1, "text": page.text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        self.pages.append(page)
        return page

    def close_pages(self) -> None:
        """Close what was opened, so that what is opened next is not completed from it."""
        for page in self.pages:
            page.close()
        self.pages.clear()

    async def close(self) -> int | None:
        """Say goodbye; returns the exit status."""
        assert self.client._server is not None
        if self.client._server.returncode is None:
            await self.ask("shutdown")
            self.tell("exit")
        return await self.gone()

    async def gone(self) -> int | None:
        assert self.client._server is not None and self.client._stderr_forwarder is not None
        await asyncio.wait_for(self.client._server.wait(), HANG)
        await self.client._stderr_forwarder
        await self.client.stop()
        return self.client._server.returncode


@dataclass
class Page:
    """An open document and its cursor, in code points."""

    editor: Editor
    uri: str
    text: str
    cursor: int
    version: int = 1

    def position(self, offset: int) -> dict[str, int]:
        before = self.text[:offset].replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return {"line": len(before) - 1, "character": units(before[-1], self.editor.encoding)}

    @property
    def place(self) -> dict[str, Any]:
        return {"textDocument": {"uri": self.uri}, "position": self.position(self.cursor)}

    def edit(self, start: int, end: int, new: str) -> None:
        """Replace a range, and go to the end of what is new."""
        edges = {"start": self.position(start), "end": self.position(end)}
        self.text, self.cursor, self.version = (
            self.text[:start] + new + self.text[end:],
            start + len(new),
            self.version + 1,
        )
        change = {"range": edges, "text": new}
        name = {"uri": self.uri, "version": self.version}
        self.editor.tell("textDocument/didChange", {"textDocument": name, "contentChanges": [change]})

    def type(self, new: str) -> None:
        self.edit(self.cursor, self.cursor, new)

    def close(self) -> None:
        self.editor.tell("textDocument/didClose", {"textDocument": {"uri": self.uri}})

    def ask(self, kind: int = 2) -> tuple[str, asyncio.Future[Any]]:
        return self.editor.send("textDocument/inlineCompletion", {**self.place, "context": {"triggerKind": kind}})

    async def item(self, kind: int = 2) -> dict[str, Any] | None:
        """The best inline item, which is the only one unless the user asked, or None where the answer is null."""
        answer = await self.ask(kind)[1]
        if answer is None:
            return None
        item, *alternatives = answer["items"]
        assert not alternatives or kind == 1
        return item

    async def ghost(self) -> str | None:
        item = await self.item()
        return item["insertText"] if item else None

    async def menu(self) -> dict[str, Any] | None:
        context = {"triggerKind": 1}
        return await self.editor.ask("textDocument/completion", {**self.place, "context": context})

    async def explain(self) -> dict[str, Any]:
        return await self.editor.ask("efim/explain", self.place)


def alone(settings: object) -> object:
    """Settings with which a client gets a server process of its own, which a test can watch and end."""
    if settings is None:
        return {"shared": False}
    if not isinstance(settings, Mapping):
        return settings
    section = next((name for name in ("efim-ls", "efim_ls") if name in settings), None)
    return {**settings, section: alone(settings[section])} if section else {"shared": False, **settings}


def units(text: str, encoding: str) -> int:
    return (
        len(text.encode(f"{encoding}-le" if encoding != "utf-8" else encoding))
        // {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    )


@asynccontextmanager
async def launched(
    command: tuple[str, ...] = STAND_IN,
    cache: Path | None = None,
    is_alone: bool = True,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Editor]:
    """A server that has not been spoken to, with a cache of its own unless one is given."""
    with nullcontext(cache) if cache else TemporaryDirectory() as folder:
        env = {**ENV, **(env or {}), "XDG_CACHE_HOME": str(folder)}
        config = ClientServerConfig(server_command=list(command), client_factory=Client, server_env=env)
        client = await config.start()
        assert isinstance(client, Client) and client._server is not None
        try:
            yield Editor(client, is_alone)
        finally:
            if client._server.returncode is None:
                client._server.kill()
                await client.stop()


@asynccontextmanager
async def started(
    command: tuple[str, ...] = STAND_IN, capabilities: Mapping[str, Any] = GHOST_TEXT, settings: object = None
) -> AsyncIterator[Editor]:
    """A server with its model loaded; it has to go as the protocol asks."""
    async with launched(command) as editor:
        await editor.start(capabilities, settings)
        yield editor
        assert await editor.close() == 0
