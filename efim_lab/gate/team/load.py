"""Asks one server for all people at once, each with a key after the other, by asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4

import httpx2

from efim_lab.gate.errors import WorkError
from efim_lab.gate.team.people import PersonKey
from model_runtime.cancel import NEVER
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.remote.connection import Connection, event_data, headers_of
from model_runtime.remote.dialects import Ask, Dialect, Served
from model_runtime.remote.identify import identify
from model_runtime.remote.setting import RemoteOptions

PATIENCE = 600.0  # seconds without a byte, after which a server counts as lost


class KeyRow(NamedTuple):
    """What a request took: its prompt's tokens, those that the server had, new ones, and seconds until it was over.

    `cached` is None where the server does not say it; `is_first` says that its person had asked nothing before.
    """

    prompt: int
    cached: int | None
    new: int
    seconds: float
    is_first: bool
    is_ahead: bool = False


class LoadRun(NamedTuple):
    """All rows, the seconds from the first request to the last answer, and what the server says of itself."""

    rows: list[KeyRow]
    seconds: float
    served: Served


def run_load(
    people: Sequence[Sequence[PersonKey]], options: RemoteOptions, folder: Path, tokens: int, pause: float
) -> LoadRun:
    """Ask for all keys of all people; each waits for his answer of `tokens` new ones, and `pause` seconds.

    The model's tokenizer is in a folder. Raises EngineError if the server cannot be used, WorkError if it fails then.
    """
    tokenizer = read_checkpoint(folder).tokenizer
    ends = frozenset(tokenizer.special.values())
    connection = Connection(options.base, options.host)
    try:
        # Nobody reuses the prompts of another person or of an earlier run.
        salted = [replace(options, cache_salt=uuid4().hex) for _ in people]
        dialects = [identify(connection, each, tokenizer, ends, NEVER) for each in salted]
    finally:
        connection.close()
    return asyncio.run(_run(people, dialects, options, tokens, pause))


async def _run(
    people: Sequence[Sequence[PersonKey]],
    dialects: Sequence[Dialect],
    options: RemoteOptions,
    tokens: int,
    pause: float,
) -> LoadRun:
    # A connection for each request: llama.cpp's server closes a kept one while the next request is on its way.
    limits = httpx2.Limits(max_connections=len(people), max_keepalive_connections=0)
    async with httpx2.AsyncClient(base_url=options.base, timeout=PATIENCE, limits=limits) as client:
        began, key = perf_counter(), options.key()
        persons = [Person(client, key, dialect, number, tokens) for number, dialect in enumerate(dialects)]
        try:
            await asyncio.gather(*(one.type(keys, pause) for one, keys in zip(persons, people, strict=True)))
        except httpx2.HTTPError as error:
            raise WorkError(f"{options.host} failed under this load ({type(error).__name__}): see its log") from error
        rows = [row for one in persons for row in one.rows]
        return LoadRun(rows, perf_counter() - began, dialects[0].served)


class Person:
    """Someone who types one key after the other; collects a row for each request."""

    def __init__(self, client: httpx2.AsyncClient, key: str, dialect: Dialect, number: int, tokens: int) -> None:
        self.rows = list[KeyRow]()
        self._client, self._dialect, self._headers = client, dialect, headers_of(uuid4().hex, key)
        self._slot, self._tokens = number % (dialect.served.slots or 1), tokens

    async def type(self, keys: Sequence[PersonKey], pause: float) -> None:
        """Ask for each key's prompt, after the prompts to be computed ahead of it."""
        for number, key in enumerate(keys):
            for ids in key.ahead:
                await self._ask(Ask(ids, 0, self._slot), number == 0, is_ahead=True)
            await self._ask(Ask(key.ids, self._tokens, self._slot), number == 0)
            await asyncio.sleep(pause)

    async def _ask(self, ask: Ask, is_first: bool, is_ahead: bool = False) -> None:
        began = perf_counter()
        cached, new = await self._answer(ask)
        self.rows.append(KeyRow(len(ask.ids), cached, new, perf_counter() - began, is_first, is_ahead))

    async def _answer(self, ask: Ask) -> tuple[int | None, int]:
        """Return how many tokens the server had, if it says so, and how many are new."""
        cached, new = None, 0
        body, path = self._dialect.body(ask), self._dialect.path
        async with self._client.stream("POST", path, json=body, headers=self._headers) as response:
            response.raise_for_status()
            async for data in event_data(response.aiter_lines()):
                piece = self._dialect.read(json.loads(data))
                new += len(piece.tokens)
                cached = cached if piece.reused is None else piece.reused
        return cached, new
