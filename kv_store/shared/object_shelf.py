"""A shelf in an object store, S3, Google Cloud Storage or Azure, swept by those who write to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from kv_store.shared.shelf import REMEDY, ShelfError, ShelfItem, Stored, Sweeper, is_name, is_old

CONNECTING, ANSWERING = timedelta(seconds=0.5), timedelta(seconds=2)  # until a store counts as lost
SIDE_BY_SIDE = 8  # requests

T = TypeVar("T")
U = TypeVar("U")


class ObjectShelf:
    """Values as objects `PREFIX/NAME`, a request for each, several side by side.

    Object stores do not note when a value was read: old values that are still used are written again.
    """

    def __init__(self, url: str, prefix: str, most_bytes: int | None, largest: int) -> None:
        """Connect to nothing yet; with `most_bytes` the oldest values beyond them are swept. Raises ShelfError.

        Values of more than `largest` bytes are none of ours.
        """
        self._place = urlsplit(url).netloc.rpartition("@")[2]
        self._prefix, self._largest, self._sweeper = prefix.replace(":", "/"), largest, Sweeper(most_bytes)
        try:
            self._store: Any = _open(url)
        except (BaseError, ValueError, TypeError, OSError):
            raise ShelfError(f"the shared cache's address does not belong to an object store; {REMEDY}") from None
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

    def scan(self) -> Iterator[ShelfItem]:
        """Yield all values of the team."""
        return (ShelfItem(each.name, each.size) for each in self._objects())

    def retire(self, names: Sequence[str]) -> None:
        """Do nothing: an object keeps its age, and goes by that."""

    def delete(self, names: Sequence[str]) -> int:
        """Remove values and return how many; those that are missing are ignored."""
        return sum(self._each(self._delete, names))

    def sweep(self) -> None:
        """Remove expired values, and the oldest beyond the most bytes; at most once an hour."""
        if self._sweeper.begin():
            self._each(self._delete, self._sweeper.outdated(self._objects()))

    def close(self) -> None:
        """End what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _get(self, name: str) -> bytes | None:
        try:
            found = self._store.get(self._path(name))
            if found.meta["size"] > self._largest:
                return b""
            value = bytes(found.bytes())
        except FileNotFoundError:
            return None
        if is_old(found.meta["last_modified"].timestamp()):
            self._put((name, value))
        return value

    def _is_current(self, name: str) -> bool:
        try:
            return not is_old(self._store.head(self._path(name))["last_modified"].timestamp())
        except FileNotFoundError:
            return False

    def _put(self, item: tuple[str, bytes]) -> None:
        self._store.put(self._path(item[0]), item[1])

    def _delete(self, name: str) -> bool:
        try:
            self._store.delete(self._path(name))
        except FileNotFoundError:
            return False
        return True

    def _objects(self) -> Iterator[Stored]:
        """Yield what lies directly below the prefix and is called as a value."""
        [pages] = self._each(lambda prefix: iter(self._store.list(prefix)), [f"{self._prefix}/"])
        while found := self._each(_next_page, [pages])[0]:
            for each in found:
                name = each["path"].removeprefix(f"{self._prefix}/")
                if is_name(name):
                    yield Stored(name, each["size"], each["last_modified"].timestamp())

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
    # Over plain HTTP only where the user has named such an endpoint, as in AWS_ENDPOINT_URL.
    options: Any = {"connect_timeout": CONNECTING, "timeout": ANSWERING, "allow_http": True}
    return from_url(url, client_options=options, retry_config={"max_retries": 0})


def _next_page(pages: Iterator[Sequence[Any]]) -> Sequence[Any]:
    return next(pages, ())
