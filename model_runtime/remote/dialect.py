"""How one kind of server is asked, and how its answers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple, Protocol

from model_runtime.ids import Ids
from model_runtime.remote.connection import Json


class Ask(NamedTuple):
    """A prompt to go on with for at most `limit` tokens; of one token, only those `allowed`, if there are any.

    `slot` is the place on the server that holds the frame's cached rows, where a server has places. Of
    `one_line` no more than that is wanted.
    """

    ids: Ids
    limit: int
    slot: int = 0
    allowed: Ids | None = None
    one_line: bool = False


class NextToken(NamedTuple):
    """A token that a server chose, its chance, and the chances of the likeliest tokens there."""

    token: int
    chance: float
    likely: Mapping[int, float]


class StreamPiece(NamedTuple):
    """What came at once: tokens and the text that they are on the server, whether it is all, and its costs.

    `reused` are the prompt's tokens that the server did not compute, None while it has not said.
    """

    tokens: tuple[NextToken, ...] = ()
    text: str = ""
    ended: bool = False
    reused: int | None = None

    def checked(self) -> StreamPiece:
        """Return it; raises ValueError if it is of other types than these, or has numbers that cannot be."""
        numbers = [number for each in self.tokens for number in (each.token, *each.likely)]
        chances = [chance for each in self.tokens for chance in (each.chance, *each.likely.values())]
        if self.reused is not None and not (_is_whole(self.reused) and self.reused >= 0):
            raise ValueError
        if not all(map(_is_whole, numbers)) or not all(isfinite(chance) for chance in chances):
            raise ValueError
        return self


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class Served:
    """What a server says of itself: its model, its most tokens and its places for frames; 0 where it says nothing."""

    kind: str
    model: str
    context: int = 0
    slots: int = 0


class Dialect(Protocol):
    """One kind of server with one model."""

    @property
    def served(self) -> Served:
        """What the server says of itself."""
        ...

    @property
    def path(self) -> str:
        """The path of completions."""
        ...

    def body(self, ask: Ask) -> Json:
        """Return the request that asks for tokens in a stream."""
        ...

    def read(self, event: Json) -> StreamPiece:
        """Return what an event of the stream says; raises KeyError, TypeError or ValueError for nonsense."""
        ...

    def tokenize(self, text: str) -> tuple[str, Json] | None:
        """Return the path and the body that ask for the token ids of a text, None if there is no such path."""
        ...
