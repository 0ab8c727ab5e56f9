"""What greedy decoding chose after a prompt, so that nobody has to choose it again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from model_runtime.engine.ngram_cache import NgramCache
from model_runtime.engine.sampler import Choice
from model_runtime.ids import Ids

Spells = Callable[[int, bytes], bool]  # whether a token may come next where a stub has still to be spelled


class Choices:
    """The tokens chosen one after another behind a prompt, each with the stub it had to spell.

    A choice is a function of the tokens before it, the local cache, its history and the stub. It holds for a longer
    stub that it spells as well, unless its chances are of the shorter one's tokens: the best of all that fit the
    shorter one is the best of those, too.
    """

    def __init__(self, ids: Ids, history: Ids, cache: NgramCache | None) -> None:
        """Nothing is chosen yet behind the prompt `ids`, where the local cache reads `history`."""
        self._ids, self._history, self._cache = ids, history, cache
        self._made: list[Choice] = []
        self._stubs: list[bytes] = []

    def add(self, position: int, choice: Choice, stub: bytes) -> None:
        """Remember what was chosen at a position; another choice there makes the later ones void."""
        n = position - len(self._ids)
        if n < len(self._made) and self._made[n].token == choice.token:
            if not (self._made[n].whole and stub.startswith(self._stubs[n])):
                self._made[n], self._stubs[n] = choice, stub
            return
        del self._made[n:], self._stubs[n:]
        self._made.append(choice)
        self._stubs.append(stub)

    def apply_to(self, ids: Ids, history: Ids, cache: NgramCache | None) -> bool:
        """Whether choices may be repeated behind a prompt: it is the same one, or goes on with what was chosen."""
        chosen = len(ids) - len(self._ids)
        if not 0 <= chosen <= len(self._made) or cache != self._cache:
            return False
        tokens = np.array([choice.token for choice in self._made[:chosen]], dtype=np.int32)
        return _goes_on(ids, self._ids, tokens) and _goes_on(history, self._history, tokens)

    def at(self, position: int, stub: bytes, spells: Spells) -> Choice | None:
        """What was chosen at a position, where it is what would be chosen for this stub."""
        n = position - len(self._ids)
        if not 0 <= n < len(self._made) or not stub.startswith(self._stubs[n]):
            return None
        made = self._made[n]
        same = stub == self._stubs[n] or (made.whole and spells(made.token, stub))
        return made if same else None


def _goes_on(row: Ids, start: Ids, tokens: Ids) -> bool:
    return np.array_equal(row[: len(start)], start) and np.array_equal(row[len(start) :], tokens)
