"""A shelf on a Valkey or Redis server, which forgets values by itself once they are old."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import valkey
from valkey.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    ValkeyError,
)
from valkey.exceptions import TimeoutError as ValkeyTimeout

from kv_store.shared.shelf import KEEP_SECONDS, REMEDY, RETIRED_SECONDS, ShelfError, ShelfFull, ShelfItem, is_name

SECONDS = 0.5  # until a server counts as lost: for a connection, between two pieces of an answer
SCANNED = 1000  # names that the server looks at in one step
REFUSALS = (AuthenticationError, AuthorizationError, NoPermissionError)


class ValkeyShelf:
    """Values under `PREFIX:NAME`, each with the time that it is kept, by one pipeline for each method."""

    def __init__(self, url: str, prefix: str, largest: int) -> None:
        """Connect to nothing yet; raises ShelfError for a url that cannot be one.

        Values of more than `largest` bytes are none of ours.
        """
        parts = urlsplit(url)
        self._host, self._prefix, self._largest = parts.hostname or "this machine", prefix, largest
        secure = {"ssl_check_hostname": True} if parts.scheme in ("valkeys", "rediss") else {}
        client: Any = valkey.Valkey  # whose types are partly unknown
        try:
            self._client: Any = client.from_url(
                url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, socket_keepalive=True, **secure
            )
            self._client.connection_pool.make_connection()  # connects to nothing, but checks what the url asks for
        except (ValkeyError, ValueError, TypeError):
            raise ShelfError(f"the shared cache's address does not belong to a Valkey server; {REMEDY}") from None

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        """Return values, None for those that are missing, and mark them as used.

        A value that is too large, or of another type, is returned as empty.
        """
        parts = self._marked(("GETRANGE", self._key(name), 0, self._largest) for name in names)
        return [(part if part and len(part) <= self._largest else b"") if there else None for part, there in parts]

    def exists(self, names: Sequence[str]) -> list[bool]:
        """Return which values are there, and mark them as used; values of other types are missing."""
        sizes = self._marked(("STRLEN", self._key(name)) for name in names)
        return [bool(there and size and size <= self._largest) for size, there in sizes]

    def put_many(self, values: Mapping[str, bytes]) -> int:
        """Write values and return how many; raises ShelfFull if there is no room for one of them."""
        return len(self._run(("SET", self._key(name), each, "EX", KEEP_SECONDS) for name, each in values.items()))

    def scan(self) -> Iterator[ShelfItem]:
        """Yield all values of the team."""
        cursor = None
        while cursor != 0:
            cursor, keys = self._asked(partial(self._client.scan, cursor or 0, f"{self._prefix}:*", SCANNED))
            names = [key.decode("utf-8", "replace").removeprefix(f"{self._prefix}:") for key in keys]
            sizes = self._run(("STRLEN", key) for key in keys)
            yield from (ShelfItem(name, size or 0) for name, size in zip(names, sizes, strict=True) if is_name(name))

    def retire(self, names: Sequence[str]) -> None:
        """Let values go sooner than others; those that are missing are ignored."""
        self._run(("EXPIRE", self._key(name), RETIRED_SECONDS) for name in names)

    def delete(self, names: Sequence[str]) -> int:
        """Remove values and return how many; those that are missing are ignored."""
        return sum(self._run(("UNLINK", self._key(name)) for name in names))

    def sweep(self) -> None:
        """Do nothing: each value has its time."""

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _key(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    def _marked(self, commands: Iterator[tuple[Any, ...]]) -> list[tuple[Any, bool]]:
        """Run commands about keys, and mark these as used; return the answers, and whether there is such a key."""
        pairs = (pair for each in commands for pair in (each, ("EXPIRE", each[1], KEEP_SECONDS)))
        answers = self._run(pairs)
        return list(zip(answers[::2], map(bool, answers[1::2]), strict=True))

    def _run(self, commands: Iterator[tuple[Any, ...]]) -> list[Any]:
        """Run commands together and return their answers, None for a key whose value is of another type."""
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = self._asked(partial(pipeline.execute, raise_on_error=False))
        for answer in answers:
            if isinstance(answer, Exception) and not _is_wrong_type(answer):
                raise self._failure(answer)
        return [None if isinstance(answer, Exception) else answer for answer in answers]

    def _asked(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except (ValkeyError, OSError, ValueError) as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> ShelfError:
        """Return the failure that an error stands for; the server's own words are left out."""
        cache = f"the shared cache on {self._host}"
        match error:
            case OutOfMemoryError():
                return ShelfFull(f"{cache} is full; raise its maxmemory, or set its maxmemory-policy to volatile-ttl")
            case ReadOnlyError():
                return ShelfError(f"{cache} is a replica that nothing can be written to; {REMEDY}")
            case ValkeyTimeout():
                return ShelfError(f"{cache} does not answer; see whether the server there is overloaded or hangs")
            case _ if isinstance(error, REFUSALS):
                return ShelfError(f"{cache} refuses the user or the password; {REMEDY}")
            case _ if isinstance(error.__context__, ssl.SSLError):
                return ShelfError(
                    f"{cache} has a certificate that is not trusted or not its own; {REMEDY}, or name its authority "
                    "there behind '?ssl_ca_certs='"
                )
            case valkey.ConnectionError():
                return ShelfError(f"{cache} cannot be reached; start the server there, or {REMEDY}")
            case _:
                return ShelfError(f"{cache} fails ({type(error).__name__}); see the log of the server there")


def _is_wrong_type(answer: Exception) -> bool:
    return isinstance(answer, ResponseError) and str(answer).startswith("WRONGTYPE")
