"""A shelf in an object store, S3, Google Cloud Storage, Azure or a folder, swept by those who write to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, from_url

from kv_store.shared.shelf import KEEP_SECONDS, REMEDY, Item, ShelfError

CONNECTING, ANSWERING = timedelta(seconds=0.5), timedelta(seconds=2)  # until a store counts as lost
SIDE_BY_SIDE = 8  # requests
SWEEP_SECONDS = 3600.0  # between two looks at all values
RENEWED_AFTER = timedelta(seconds=KEEP_SECONDS / 2)  # after which a value that is used is written again

T = TypeVar("T")
U = TypeVar("U")


class _Object(NamedTuple):
    path: str
    size: int
    written: datetime


class ObjectShelf:
    """Values as objects `PREFIX/NAME`, a request for each, several side by side.

    Object stores do not note when something was read: what is old and still used is written again.
    """

    def __init__(self, url: str, prefix: str, most_bytes: int | None) -> None:
        """Connect to nothing yet; with `most_bytes` the oldest values beyond them are swept. Raises ShelfError."""
        self._place = urlsplit(url).netloc.rpartition("@")[2] or "a folder"
        self._prefix, self._most_bytes = prefix.replace(":", "/"), most_bytes
        self._swept: float | None = None
        try:
            self._store: Any = _open(url)
        except (BaseError, ValueError, TypeError, OSError):
            raise ShelfError(f"the address of the shared cache is none of an object store; {REMEDY}") from None

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        """Return values, None for those that are missing, and write old ones again."""
        return self._each(self._get, names)

    def exists(self, names: Sequence[str]) -> list[bool]:
        """Return which values are there and not so old that they should be written again."""
        return self._each(self._is_current, names)

    def put_many(self, values: Mapping[str, bytes]) -> int:
        """Write values and return how many."""
        return len(self._each(self._put, values.items()))

    def scan(self) -> Iterator[Item]:
        """Yield all values of the team."""
        return (Item(each.path.rpartition("/")[2], each.size) for each in self._objects())

    def retire(self, names: Sequence[str]) -> None:
        """Do nothing: an object keeps its age, and goes by that."""

    def delete(self, names: Sequence[str]) -> int:
        """Remove values and return how many; those that are missing are ignored."""
        return sum(self._each(self._delete, [self._path(name) for name in names]))

    def sweep(self) -> None:
        """Remove what is too old, and the oldest beyond the most bytes; at most once an hour."""
        now = time.monotonic()
        if self._swept is not None and now < self._swept + SWEEP_SECONDS:
            return
        self._swept, total, outdated = now, 0, list[str]()
        oldest = datetime.now(UTC) - timedelta(seconds=KEEP_SECONDS)
        for each in sorted(self._objects(), key=lambda each: each.written, reverse=True):
            total += each.size
            if each.written < oldest or (self._most_bytes is not None and total > self._most_bytes):
                outdated.append(each.path)
        self._each(self._delete, outdated)

    def close(self) -> None:
        """Do nothing: connections end with the object."""

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    async def _get(self, name: str) -> bytes | None:
        try:
            found = await self._store.get_async(self._path(name))
            value = bytes(await found.bytes_async())
        except FileNotFoundError:
            return None
        if _is_old(found.meta["last_modified"]):
            await self._put((name, value))
        return value

    async def _is_current(self, name: str) -> bool:
        try:
            return not _is_old((await self._store.head_async(self._path(name)))["last_modified"])
        except FileNotFoundError:
            return False

    async def _put(self, item: tuple[str, bytes]) -> None:
        await self._store.put_async(self._path(item[0]), item[1])

    async def _delete(self, path: str) -> bool:
        try:
            await self._store.delete_async(path)
        except FileNotFoundError:
            return False
        return True

    def _objects(self) -> Iterator[_Object]:
        pages = self._asked(lambda: iter(self._store.list(f"{self._prefix}/")))
        while found := self._asked(lambda: next(pages, ())):
            yield from (_Object(each["path"], each["size"], each["last_modified"]) for each in found)

    def _each(self, request: Callable[[T], Awaitable[U]], arguments: Iterable[T]) -> list[U]:
        """Return the results of a request for each argument, made side by side."""
        limit = asyncio.Semaphore(SIDE_BY_SIDE)

        async def limited(argument: T) -> U:
            async with limit:
                return await request(argument)

        async def results() -> list[U]:
            return await asyncio.gather(*map(limited, arguments))

        return self._asked(lambda: asyncio.run(results()))

    def _asked(self, question: Callable[[], Any]) -> Any:
        cache = f"the shared cache in {self._place}"
        try:
            return question()
        except (PermissionDeniedError, UnauthenticatedError, PermissionError):
            raise ShelfError(f"{cache} may not be used; correct its credentials, or {REMEDY}") from None
        except (BaseError, OSError):
            raise ShelfError(f"{cache} cannot be reached, or has no room; see to it there, or {REMEDY}") from None


def _open(url: str) -> Any:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return LocalStore(Path(url2pathname(parts.path)), mkdir=True)
    # Over plain HTTP only where the user has named such an endpoint, as in AWS_ENDPOINT_URL.
    options: Any = {"connect_timeout": CONNECTING, "timeout": ANSWERING, "allow_http": True}
    return from_url(url, client_options=options, retry_config={"max_retries": 0})


def _is_old(written: datetime) -> bool:
    return datetime.now(UTC) - written > RENEWED_AFTER
