"""Stores for tests: in memory only, or in a folder."""

from __future__ import annotations

from pathlib import Path

from efim_ls.completion.completer import Completer
from efim_ls.completion.document_state import DocumentState
from efim_ls.completion.models.saving import KvPersistence
from efim_ls.completion.planning.window import Budget
from efim_ls.settings import Settings
from model_runtime.loading.load import Model


def in_memory(model: Model, budget: Budget, mib: int = 16) -> KvPersistence:
    """One that writes nothing to disk."""
    return KvPersistence.open(model.kv, Settings(persist=False), "tiny", budget, mib)


def on_disk(model: Model, budget: Budget, folder: Path) -> KvPersistence:
    """One below a folder."""
    return KvPersistence.open(model.kv, Settings(cache_folder=str(folder), disk_mib=16), "tiny", budget, 64)


def adopt_frames(cold: Completer, warm: Completer, uri: str) -> None:
    """Give a completer what another one has planned and suggested, and nothing that it has computed."""
    for name, document in {uri: None, **warm._documents}.items():
        saved = document.saved if document else warm._persistence.recall(name)
        twin = cold._documents[name] = DocumentState(cold._make_planner, saved)
        if document and document.unsaved:
            twin._planner = document.planner.copy()
        if document:
            twin.suggestions._suggestions = document.suggestions._suggestions.copy()
            twin._memory = document._memory  # made under another view, a suggestion no longer stands
