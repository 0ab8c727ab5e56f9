"""The connection to a language server in a child process: its requests, its replies, the end of its stderr."""

from __future__ import annotations

import asyncio
import sys
import uuid
from contextlib import suppress
from typing import Any

from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

EXIT_SECONDS = 10.0
STDERR_KEPT = 2_000  # bytes of the end of stderr


class ServerError(Exception):
    """The server answered with an error."""


class ServerDied(ServerError):
    """The server has exited; the message ends with its last words on stderr."""


class Connection(LanguageClient):
    """A server in a child process; results of custom requests are plain JSON values."""

    command: tuple[str, ...] = (sys.executable, "-m", "efim_ls", "serve")

    def __init__(self) -> None:
        super().__init__("efim-ls headless", "1", converter_factory=get_converter)
        self.news = asyncio.Event()  # set when a progress report or the server ends
        self._stderr = b""
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(_agree)
        self.feature(types.WINDOW_SHOW_MESSAGE)(_show)
        self.feature(types.WINDOW_LOG_MESSAGE)(_agree)
        self.feature(types.PROGRESS)(_on_progress)

    async def launch(self) -> None:
        """Start the server in its own session, so that Ctrl-C reaches only this process."""
        await self.start_io(*self.command, start_new_session=True)
        self._stderr_reader = asyncio.create_task(self._keep_stderr())

    async def ask(self, method: str, params: object = None) -> Any:
        """Send a request and wait for its result; cancelling the wait cancels the request at the server."""
        if self.stopped:
            raise await self._obituary()
        number = str(uuid.uuid4())
        answer = self.protocol.send_request_async(method, params, number)
        answer.add_done_callback(_retrieve)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self.tell(types.CANCEL_REQUEST, types.CancelParams(number))
            raise
        except JsonRpcException as error:
            raise ServerError(error.message) from error
        except RuntimeError as error:
            raise await self._obituary() from error

    def tell(self, method: str, params: object = None) -> None:
        """Send a notification; the next request reports a server that has exited."""
        if not self.stopped:
            self.protocol.notify(method, params)

    async def close(self) -> None:
        """Shut the server down as the protocol says, or kill it if it does not exit."""
        assert self._server is not None
        with suppress(ServerError, TimeoutError):
            await asyncio.wait_for(self.ask(types.SHUTDOWN), EXIT_SECONDS)
            self.tell(types.EXIT)
        try:
            await asyncio.wait_for(self._server.wait(), EXIT_SECONDS)
        except TimeoutError:
            self._server.kill()
        with suppress(asyncio.IncompleteReadError):
            await self.stop()
        await self._stderr_reader

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        """Wake those who wait for news."""
        self.news.set()

    async def _keep_stderr(self) -> None:
        assert self._server is not None and self._server.stderr is not None
        while chunk := await self._server.stderr.read(STDERR_KEPT):
            self._stderr = (self._stderr + chunk)[-STDERR_KEPT:]

    async def _obituary(self) -> ServerDied:
        assert self._server is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._stderr_reader), 1)
        words = self._stderr.decode(errors="replace").strip()
        return ServerDied(f"the language server exited with code {self._server.returncode}\n{words}".strip())


def _agree(params: Any) -> None:
    """Accept a message; answer null if it is a request."""


def _on_progress(ls: Connection, params: types.ProgressParams) -> None:
    if isinstance(params.value, dict) and params.value.get("kind") == "end":
        ls.news.set()


def _show(params: types.ShowMessageParams) -> None:
    """Print warnings; errors already make a request fail or appear in the status."""
    if params.type != types.MessageType.Error:
        print(params.message, file=sys.stderr)


def _retrieve(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()
