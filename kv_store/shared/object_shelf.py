"""A shelf in an object store, S3, Google Cloud Storage, Azure or a folder, swept by those who write to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
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
            raise ShelfError(f"the shared cache's address is not that of an object store; {REMEDY}") from None
        # Requests are made on these threads alone, which the interpreter waits for when it ends: native code that
        # comes back to an interpreter that is gone would abort the process.
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, "shared cache")

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
        """End what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _get(self, name: str) -> bytes | None:
        try:
            found = self._store.get(self._path(name))
            value = bytes(found.bytes())
        except FileNotFoundError:
            return None
        if _is_old(found.meta["last_modified"]):
            self._put((name, value))
        return value

    def _is_current(self, name: str) -> bool:
        try:
            return not _is_old(self._store.head(self._path(name))["last_modified"])
        except FileNotFoundError:
            return False

    def _put(self, item: tuple[str, bytes]) -> None:
        self._store.put(self._path(item[0]), item[1])

    def _delete(self, path: str) -> bool:
        try:
            self._store.delete(path)
        except FileNotFoundError:
            return False
        return True

    def _objects(self) -> Iterator[_Object]:
        [pages] = self._each(lambda prefix: iter(self._store.list(prefix)), [f"{self._prefix}/"])
        while found := self._each(_next_page, [pages])[0]:
            yield from (_Object(each["path"], each["size"], each["last_modified"]) for each in found)

    def _each(self, request: Callable[[T], U], arguments: Iterable[T]) -> list[U]:
        """Return the results of a request for each argument, made side by side."""
        cache = f"the shared cache in {self._place}"
        try:
            return list(self._pool.map(request, arguments))
        except (PermissionDeniedError, UnauthenticatedError, PermissionError):
            raise ShelfError(f"{cache} may not be used; correct its credentials, or {REMEDY}") from None
        except (BaseError, OSError, RuntimeError, CancelledError):  # the last two once the pool is shut down
            raise ShelfError(f"{cache} cannot be reached, or has no room; see to it there, or {REMEDY}") from None


def _open(url: str) -> Any:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return LocalStore(Path(url2pathname(parts.path)), mkdir=True)
    # Over plain HTTP only where the user has named such an endpoint, as in AWS_ENDPOINT_URL.
    options: Any = {"connect_timeout": CONNECTING, "timeout": ANSWERING, "allow_http": True}
    return from_url(url, client_options=options, retry_config={"max_retries": 0})


def _next_page(pages: Iterator[Sequence[Any]]) -> Sequence[Any]:
    return next(pages, ())


def _is_old(written: datetime) -> bool:
    return datetime.now(UTC) - written > RENEWED_AFTER
