"""A pool of connections to one server, on an event loop in a separate thread, so that callers can stop waiting."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar, cast
from uuid import uuid4

import httpx2

from model_runtime.cancel import Cancel, Cancelled
from model_runtime.errors import EngineError

Json = Mapping[str, Any]
T = TypeVar("T")

POLL = 0.005  # seconds between two looks at whether the answer is still wanted
MOST_REQUESTS = 4  # under way at once; more would wait for each other on the server
TRIES = MOST_REQUESTS + 1  # of a request whose connection broke before it brought anything: servers close idle ones
SESSION = "x-session-id"  # by which a router in front of several servers sends all requests to the same one
CONNECTING, SILENCE = 3.0, 10.0  # seconds until a server counts as lost: for a connection, between two bytes
KEPT = 120.0  # seconds that an idle connection is kept
WHOLE = 60.0  # seconds that a stream may take in all, however it drips
LONGEST_PIECE = 1 << 20  # bytes of one event
LARGEST_ANSWER, LARGEST_STREAM = 1 << 22, 1 << 24  # bytes of an answer, and of all events of one
DONE = "[DONE]"  # the last event of OpenAI's streams


class Connection:
    """Asks one server for JSON and for streams of it. Used on any thread, until it is closed.

    Every method raises EngineError with cause and remedy for what goes wrong, and Cancelled soon after `cancel()` is
    true; the connection is closed then, which ends the work on the server.
    """

    def __init__(self, base: str, host: str) -> None:
        """Connect to nothing yet; `host` names the server in messages."""
        self._base, self._host, self._session = base, host, uuid4().hex
        self._headers = headers_of(self._session)
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="remote", daemon=True)
        self._thread.start()
        self._under_way = asyncio.Semaphore(MOST_REQUESTS)
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(SILENCE, connect=CONNECTING),
            limits=httpx2.Limits(max_connections=MOST_REQUESTS, keepalive_expiry=KEPT),
            http2=find_spec("h2") is not None,
            verify=httpx2.create_ssl_context(),  # with what the environment says of authorities
            trust_env=False,  # but not by its proxies: the text and the key are for that address alone
        )

    def use_key(self, key: str) -> None:
        """Send a key with each request from now on; an empty one is none."""
        self._headers = headers_of(self._session, key)

    def ask(self, method: Literal["GET", "POST"], path: str, body: Json | None, cancel: Cancel) -> Json:
        """Return the object that a request is answered with."""
        return self._wait(self._run(self._answer(method, path, body)), cancel)

    def text(self, path: str, cancel: Cancel) -> str:
        """Return the text at a path."""
        return self._wait(self._run(self._text(path)), cancel)

    @contextmanager
    def stream(self, path: str, body: Json, cancel: Cancel) -> Generator[Iterator[Json]]:
        """Post a body and give the objects of the answer as they come; leaving closes what has not ended."""
        pieces = SimpleQueue[Json | None]()
        pumping = self._run(self._pump(path, body, pieces))
        pumping.add_done_callback(lambda _: pieces.put(None))
        try:
            yield self._pieces(pieces, pumping, cancel)
        finally:
            pumping.cancel()

    def close(self) -> None:
        """End all requests and the thread; waiting callers get Cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    async def _end(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._client.aclose()
        self._loop.stop()

    def _run(self, asking: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(asking, self._loop)

    def _wait(self, asking: Future[T], cancel: Cancel) -> T:
        try:
            while True:
                self._check(cancel)
                with suppress(TimeoutError):
                    return asking.result(POLL)
        except CancelledError:  # the connection was closed
            raise Cancelled from None
        finally:
            asking.cancel()

    def _pieces(self, pieces: SimpleQueue[Json | None], pumping: Future[None], cancel: Cancel) -> Iterator[Json]:
        while True:
            self._check(cancel)
            try:
                piece = pieces.get(timeout=POLL)
            except Empty:
                continue
            if piece is None:
                self._check(cancel)  # closing cancels requests
                return pumping.result()
            yield piece

    def _check(self, cancel: Cancel) -> None:
        """Raise Cancelled if nobody waits, or once the connection is closed."""
        cancel.check()
        if self._is_closed:
            raise Cancelled

    async def _answer(self, method: str, path: str, body: Json | None) -> Json:
        async with self._response(method, path, body) as response:
            return self._object(await self._whole(response))

    async def _text(self, path: str) -> str:
        async with self._response("GET", path, None) as response:
            return await self._whole(response)

    async def _whole(self, response: httpx2.Response) -> str:
        content = bytearray()
        async for part in response.aiter_raw():
            content += part
            if len(content) > LARGEST_ANSWER:
                raise nonsense(self._host)
        return content.decode("utf-8", "replace")

    async def _pump(self, path: str, body: Json, pieces: SimpleQueue[Json | None]) -> None:
        async with self._response("POST", path, body, WHOLE) as response:
            try:
                async with asyncio.timeout(SILENCE) as silence:
                    async for data in event_data(lines_of(response.aiter_raw())):
                        pieces.put(self._object(data))
                        silence.reschedule(self._loop.time() + SILENCE)  # only an event is a sign of life
            except ValueError:
                raise nonsense(self._host) from None

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, body: Json | None, seconds: float | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request and give the response, which must be read within `seconds`, or in the time of a silence."""
        async with self._under_way:
            with self._failures():
                async with asyncio.timeout(seconds or SILENCE):
                    request = self._client.build_request(method, self._base + path, json=body, headers=self._headers)
                    response = await self._send(request)
                    try:
                        self._check_response(response, path)
                        yield response
                    finally:
                        await response.aclose()

    def _check_response(self, response: httpx2.Response, path: str) -> None:
        if not response.is_success:
            raise self._refused(response.status_code, path)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise nonsense(self._host)  # none was asked for, and a small one may become large

    @contextmanager
    def _failures(self) -> Generator[None]:
        """Raise EngineError for what fails on the way."""
        try:
            yield
        except httpx2.ConnectError:
            raise EngineError(
                f"{self._host} refuses connections: start the server there, or correct 'url' in the setting 'engine'"
            ) from None
        except (httpx2.TimeoutException, TimeoutError):
            raise EngineError(
                f"{self._host} has not answered for {SILENCE:.0f} seconds: see whether the server there is "
                "overloaded or hangs"
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise EngineError(
                f"the connection to {self._host} broke off ({type(error).__name__}): see whether the server "
                "there is running"
            ) from None

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(TRIES - 1):
            try:
                return await self._client.send(request, stream=True)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                continue
        return await self._client.send(request, stream=True)

    def _refused(self, status: int, path: str) -> EngineError:
        """Return what a status means; what the server says of it may quote the user's text."""
        match status:
            case 401 | 403:
                return EngineError(
                    f"{self._host} refuses the key: name another file as 'key_file' in the setting 'engine'"
                )
            case 404:
                return EngineError(
                    f"{self._host} has no {path}, or not the model: correct 'url', 'kind' or 'model' in the setting "
                    "'engine'"
                )
            case 429 | 503:
                return EngineError(
                    f"{self._host} is loading its model or overloaded: wait, or start it with more room"
                )
            case _:
                return EngineError(f"{self._host} answers with the status {status}: see the log of the server there")

    def _object(self, text: str) -> Json:
        try:
            found: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise nonsense(self._host) from None
        if not isinstance(found, dict):
            raise nonsense(self._host)
        return cast(Json, found)


def headers_of(session: str, key: str = "") -> dict[str, str]:
    """Return the headers of every request: whose it is, for routers, and the key that the server wants, if any."""
    always = {SESSION: session, "accept-encoding": "identity"}
    return always | ({"authorization": f"Bearer {key}"} if key else {})


async def lines_of(parts: AsyncIterator[bytes]) -> AsyncGenerator[str]:
    """Yield the lines of a stream; ValueError if one of them or all are too long."""
    begun, total = b"", 0
    async for part in parts:
        total += len(part)
        *lines, begun = (begun + part).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
        if len(begun) > LONGEST_PIECE or total > LARGEST_STREAM:
            raise ValueError
    if begun:
        yield begun.decode("utf-8", "replace")


async def event_data(lines: AsyncIterator[str]) -> AsyncGenerator[str]:
    """Yield the data of server-sent events before OpenAI's last, but read all; ValueError for other lines."""
    ended = False
    async for line in lines:
        kind, _, data = line.partition(":")
        if kind not in ("", "data"):
            raise ValueError
        ended = ended or data.strip() == DONE
        if kind and not ended:
            yield data


def nonsense(host: str) -> EngineError:
    """Return the error for an answer that no inference server gives."""
    return EngineError(
        f"{host} does not answer as an inference server does: correct 'url' or 'kind' in the setting 'engine'"
    )
