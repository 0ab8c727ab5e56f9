"""Accepted next edits, followed through later edits until it is counted whether they were kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from efim_ls.text.document import Edit
from efim_ls.usage.counters import Counters
from efim_ls.usage.suggestions import COUNTED_AFTER, RetainedRange

Followers = list[Callable[[Edit], None]]  # of a document: called with each edit of it


class _AcceptedEdit:
    """An accepted edit: its place, the rest of its added text, and whether it was taken back."""

    def __init__(self, uri: str, language: str, edit: Edit, followers: Followers) -> None:
        self.uri, self.language, self.edit, self.followers = uri, language, edit, followers
        self.timer: asyncio.TimerHandle | None = None
        self._at, self._retained, self._undone = edit.at, RetainedRange(edit.at, edit.end), False

    @property
    def is_kept(self) -> bool:
        return not self._undone and self._retained.characters == len(self.edit.added)

    def follow(self, later: Edit) -> None:
        if later == self.edit:  # the client reported the acceptance before it made the edit
            return
        inverse = Edit(self._at, self.edit.added, self.edit.removed)
        self._undone |= later == inverse
        self._retained.follow(later)
        if later.at + len(later.removed) <= self._at:
            self._at += len(later.added) - len(later.removed)


class AcceptedEdits:
    """Counts accepted next edits, and later those that were kept. Used on the event loop only, except `close`."""

    def __init__(self, counters: Counters, counted_after: float = COUNTED_AFTER) -> None:
        """Count kept text `counted_after` seconds after an acceptance, or when its document is closed."""
        self._counters, self._counted_after = counters, counted_after
        self._accepted: list[_AcceptedEdit] = []

    def accept(self, uri: str, language: str, edit: Edit, followers: Followers) -> None:
        """Count an accepted edit, and follow its document's later edits until it is counted as kept or not.

        The edit has no beginning or end that the old and new text share.
        """
        accepted = _AcceptedEdit(uri, language, edit, followers)
        followers.append(accepted.follow)
        self._counters.add(language, {"edits_accepted": 1})
        self._accepted.append(accepted)
        accepted.timer = asyncio.get_running_loop().call_later(self._counted_after, self._count, accepted)

    def close_document(self, uri: str) -> None:
        """Count the kept text so far in a document."""
        for accepted in [each for each in self._accepted if each.uri == uri]:
            self._count(accepted)

    def close(self) -> None:
        """Count the kept text so far."""
        for accepted in list(self._accepted):
            self._count(accepted)

    def _count(self, accepted: _AcceptedEdit) -> None:
        self._accepted.remove(accepted)
        accepted.followers.remove(accepted.follow)
        if accepted.timer is not None:
            accepted.timer.cancel()
        self._counters.add(accepted.language, {"edits_kept": int(accepted.is_kept)})
