"""What greedy decoding chose after a prompt, so that it need not be chosen again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from model_runtime.engine.ngram_cache import NgramCache
from model_runtime.engine.sampler import Choice
from model_runtime.ids import Ids

Spells = Callable[[int, bytes], bool]  # whether a token may come next while a stub has still to be spelled


class Choices:
    """The tokens chosen one after another after a prompt, each with the stub that it had to spell.

    A choice is a function of the tokens before it, the n-gram cache, its history and the stub. It also holds for a
    longer stub that it spells: the best of all tokens that fit the shorter stub is the best of those that fit the
    longer one. Only chances that were computed among the tokens of the shorter stub do not carry over.
    """

    def __init__(self, ids: Ids, history: Ids, cache: NgramCache | None) -> None:
        """Start without choices after the prompt `ids`; the n-gram cache reads `history`."""
        self._ids, self._history, self._cache = ids, history, cache
        self._made: list[Choice] = []
        self._stubs: list[bytes] = []

    def add(self, position: int, choice: Choice, stub: bytes) -> None:
        """Record the choice at a position; another choice there discards all later ones."""
        n = position - len(self._ids)
        if n < len(self._made) and self._made[n].token == choice.token:
            if not (self._made[n].whole and stub.startswith(self._stubs[n])):
                self._made[n], self._stubs[n] = choice, stub
            return
        del self._made[n:], self._stubs[n:]
        self._made.append(choice)
        self._stubs.append(stub)

    def apply_to(self, ids: Ids, history: Ids, cache: NgramCache | None) -> bool:
        """Return whether the choices hold after a prompt: the same one, or one continued with what was chosen."""
        chosen = len(ids) - len(self._ids)
        if not 0 <= chosen <= len(self._made) or cache != self._cache:
            return False
        tokens = np.array([choice.token for choice in self._made[:chosen]], dtype=np.int32)
        return _goes_on(ids, self._ids, tokens) and _goes_on(history, self._history, tokens)

    def at(self, position: int, stub: bytes, spells: Spells) -> Choice | None:
        """Return the choice at a position if it is also the choice for this stub, else None."""
        n = position - len(self._ids)
        if not 0 <= n < len(self._made) or not stub.startswith(self._stubs[n]):
            return None
        made = self._made[n]
        same = stub == self._stubs[n] or (made.whole and spells(made.token, stub))
        return made if same else None


def _goes_on(row: Ids, start: Ids, tokens: Ids) -> bool:
    return np.array_equal(row[: len(start)], start) and np.array_equal(row[len(start) :], tokens)
