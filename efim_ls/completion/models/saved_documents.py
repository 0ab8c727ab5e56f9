"""The stored state of documents other than blocks: plans, as notes, and which document is being edited."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from efim_ls.access.secrets import may_reach_disk
from efim_ls.completion.models.kv_persistence import is_int8
from efim_ls.completion.planning.notes import note_of, plans_of
from efim_ls.completion.planning.planner import Plan
from efim_ls.completion.planning.window import Budget
from efim_ls.paths import document_tag
from efim_ls.settings import Settings
from kv_store.open import OpenedStore


class SavedDocuments:
    """Remembers nothing of one client's documents: enough for an engine that opens no store on this machine.

    It `reaches_others` if blocks go to other machines. Used on the engine thread only.
    """

    reaches_others = False

    def for_client(self, settings: Settings) -> SavedDocuments:
        """Return the same as another client's settings allow to use it."""
        return self

    def note(self, uri: str, plans: Sequence[Plan]) -> None:
        """Save a document's plans, in place of earlier ones."""

    def recall(self, uri: str) -> list[Plan]:
        """Return a document's plans as saved, most recently used last."""
        return []

    def focus(self, uri: str) -> None:
        """Mark a document as the one being edited."""

    def close_document(self, uri: str) -> None:
        """Mark a document as no longer being edited."""

    def discard(self) -> None:
        """Drop what waits to be written, of all clients."""

    def describe(self) -> dict[str, object]:
        """Return where keys and values are stored, and why."""
        return {
            "store": "none",
            "store_reason": "the engine keeps nothing on this machine",
            "store_approximate": False,
        }


class StoredDocuments(SavedDocuments):
    """The same in a store that the engine reads and writes."""

    def __init__(self, opened: OpenedStore, budget: Budget, settings: Settings) -> None:
        """Share the store; plans are recalled only under the budget that they were saved with."""
        self._opened, self._budget, self._settings = opened, budget, settings
        self.reaches_others = opened.reaches_others

    def for_client(self, settings: Settings) -> StoredDocuments:
        """Return the same store as another client's settings allow to use it."""
        return StoredDocuments(self._opened, self._budget, settings)

    def note(self, uri: str, plans: Sequence[Plan]) -> None:
        """Save a document's plans on disk, in place of earlier ones; of a private document, remove them."""
        if (notes := self._opened.notes) is None:
            return
        tag = document_tag(uri)
        if self._is_private(uri):
            self._opened.submit(partial(notes.remove, tag))
        else:
            self._opened.submit(partial(notes.write, tag, note_of(uri, plans, self._budget)))

    def recall(self, uri: str) -> list[Plan]:
        """Return a document's plans as saved on disk, most recently used last."""
        if not self._opened.notes or self._is_private(uri):
            return []
        note = self._opened.notes.read(document_tag(uri))
        return plans_of(note, self._budget) if note else []

    def focus(self, uri: str) -> None:
        """Mark a document as the one being edited."""
        self._opened.store.visit(document_tag(uri))

    def close_document(self, uri: str) -> None:
        """Mark a document as no longer being edited."""
        self._opened.store.leave(document_tag(uri))

    def discard(self) -> None:
        """Drop what waits to be written, of all clients."""
        self._opened.store.discard()

    def describe(self) -> dict[str, object]:
        """Return where keys and values are stored, and why."""
        folder, settings = self._opened.folder, self._settings
        if folder is not None:
            reason = f"at most {settings.disk_mib} MiB for each model, {'int8' if is_int8(settings) else 'raw'}"
        elif settings.persist:
            reason = next(iter(self._opened.warnings.messages))
        else:
            reason = "turned off by the setting persist"
        store = str(folder) if folder else "memory only"
        return {"store": store, "store_reason": reason, "store_approximate": self._opened.approximate}

    def _is_private(self, uri: str) -> bool:
        return not may_reach_disk(uri, self._settings.private_files)
