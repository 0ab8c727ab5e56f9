"""Bodies that are read at the same time have a limit in common, and what one took is free again when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from efim_ls.http.body import MOST_BYTES, MOST_BYTES_IN_ALL, BodyReader


class Arriving:
    """A request whose body stops arriving, after so many bytes, until it may end."""

    def __init__(self, size: int) -> None:
        self.headers = dict[str, str]()
        self.arrived, self.may_end = asyncio.Event(), asyncio.Event()
        self._size = size

    async def stream(self) -> AsyncIterator[bytes]:
        yield b" " * self._size
        self.arrived.set()
        await self.may_end.wait()
        yield b"{}"


def reading(reader: BodyReader, size: int) -> tuple[Arriving, asyncio.Task[object]]:
    request = Arriving(size)
    return request, asyncio.ensure_future(reader.read(cast("Request", request)))


async def test_one_more_than_all_may_take_is_refused_and_then_there_is_room_again() -> None:
    reader, size = BodyReader(), MOST_BYTES - 2
    held = [reading(reader, size) for _ in range(MOST_BYTES_IN_ALL // size)]
    for request, _ in held:
        await request.arrived.wait()
    with pytest.raises(HTTPException) as refused:
        await reading(reader, size)[1]
    assert refused.value.status_code == 503
    for request, _ in held:
        request.may_end.set()
    await asyncio.gather(*(task for _, task in held))
    request, task = reading(reader, size)
    request.may_end.set()
    await task
