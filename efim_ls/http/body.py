"""Bodies of requests: JSON objects of bounded size, and their fields."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MOST_BYTES = 1 << 24  # of one body: a file of the largest size that gets suggestions, as JSON
MOST_BYTES_IN_ALL = 1 << 26  # of those that are being read
LONGEST_NUMBER = 20  # digits of a body's length
BODY_SECONDS = 10.0  # that a body may take to arrive

T = TypeVar("T")


class RequestFields:
    """The fields of a JSON object. Those that are null count as left out; a wrong type is an HTTPException."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        """Return whether a field is there."""
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        """Return a text, empty if left out."""
        return self._typed(name, str, "", "a text")

    def whole(self, name: str, default: int) -> int:
        """Return a whole number."""
        value = self._typed(name, (int, float), default, "a number")
        return int(min(max(value, -1), 1 << 30)) if value == value else default

    def flag(self, name: str) -> bool:
        """Return true or false, which is the default."""
        return self._typed(name, bool, False, "true or false")

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, of one if there is a text alone; other elements are skipped."""
        if isinstance(self._values.get(name), str):
            return [self._values[name]]
        return [each for each in self._typed(name, list[Any], [], "a list") if isinstance(each, str)]

    def object(self, name: str) -> RequestFields:
        """Return the fields of an object, without any if it is left out."""
        return RequestFields(self._typed(name, dict[str, Any], {}, "an object"))

    def objects(self, name: str) -> Iterator[RequestFields]:
        """Yield the fields of each object in a list; other elements are skipped."""
        for each in self._typed(name, list[Any], [], "a list"):
            if isinstance(each, dict):
                yield RequestFields(cast("dict[str, Any]", each))

    def _typed(self, name: str, kind: Any, default: T, what: str) -> T:
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, getattr(kind, "__origin__", kind)) or (isinstance(value, bool) and kind is not bool):
            raise HTTPException(400, f"{name!r} has the wrong type: send {what}")
        return cast("T", value)


class BodyReader:
    """Reads bodies, which together may not take much memory. Used on the event loop only."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, request: Request) -> RequestFields:
        """Return the fields of a request's body; raises HTTPException if it is too long, too slow or no object."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return _parsed(await self._bytes(request))
        except TimeoutError:
            raise HTTPException(408, "the body took too long: send it at once") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body is incomplete: send all of it") from None

    async def _bytes(self, request: Request) -> bytes:
        held, said = bytearray(), request.headers.get("content-length", "0")
        too_long = HTTPException(413, f"the body has more than {MOST_BYTES:,} bytes: send less text")
        if len(said) > LONGEST_NUMBER or int(said) > MOST_BYTES:  # before all of it is sent
            raise too_long
        try:
            async for chunk in request.stream():
                self._held += len(chunk)
                held += chunk
                if len(held) > MOST_BYTES:
                    raise too_long
                if self._held > MOST_BYTES_IN_ALL:
                    raise HTTPException(503, "other requests take all the room there is: send this one again")
            return bytes(held)
        finally:
            self._held -= len(held)


def _parsed(data: bytes) -> RequestFields:
    try:
        values: object = json.loads(data)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body cannot be read: send JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise HTTPException(400, "the body is no object: send a JSON object")
    return RequestFields(cast("dict[str, Any]", values))
