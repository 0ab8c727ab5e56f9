"""What was edited last in all open documents, with the texts before and after."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

MOST_EDITS, MOST_CHARACTERS = 64, 100_000  # that are kept; the last edit is kept whole, however long
PAUSE = 5.0  # seconds after which an edit that touches the one before is another one


class PastEdit(NamedTuple):
    """`removed` was replaced by `added` at an offset of the text before; `when` is by any monotonic clock."""

    uri: str
    at: int
    removed: str
    added: str
    when: float

    def touches(self, later: PastEdit) -> bool:
        """Return whether a later edit changes, precedes or follows what this one added, without a gap."""
        return later.at <= self.at + len(self.added) and self.at <= later.at + len(later.removed)

    def followed_by(self, later: PastEdit) -> PastEdit:
        """Return both as one edit; they must touch."""
        before = max(0, self.at - later.at)
        after = max(0, later.at + len(later.removed) - self.at - len(self.added))
        kept = max(0, later.at - self.at), max(0, later.at + len(later.removed) - self.at)
        return later._replace(
            at=min(self.at, later.at),
            removed=later.removed[:before] + self.removed + later.removed[len(later.removed) - after :],
            added=self.added[: kept[0]] + later.added + self.added[kept[1] :],
        )


class EditHistory:
    """The last edits of a client, oldest first; what is typed without a pause is one edit. Used on one thread."""

    def __init__(self) -> None:
        self._edits: deque[PastEdit] = deque()

    def follow(self, edit: PastEdit) -> None:
        """Note an edit that was just made; one that undoes the last one takes it back."""
        if self._edits and self._continues(self._edits[-1], edit):
            edit = self._edits.pop().followed_by(edit)
        if edit.removed != edit.added:
            self._edits.append(edit)
        size = sum(len(each.removed) + len(each.added) for each in self._edits)
        while len(self._edits) > MOST_EDITS or (size > MOST_CHARACTERS and len(self._edits) > 1):
            oldest = self._edits.popleft()
            size -= len(oldest.removed) + len(oldest.added)

    def recent(self, most: int = MOST_EDITS) -> Sequence[PastEdit]:
        """Return the last edits, the very last one at the end."""
        return tuple(self._edits)[max(0, len(self._edits) - most) :]

    def forget(self, uri: str) -> None:
        """Forget what was edited in a document."""
        self._edits = deque(each for each in self._edits if each.uri != uri)

    @staticmethod
    def _continues(last: PastEdit, edit: PastEdit) -> bool:
        return last.uri == edit.uri and edit.when - last.when <= PAUSE and last.touches(edit)
