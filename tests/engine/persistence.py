"""Stores for tests: in memory only, or in a folder."""

from __future__ import annotations

from pathlib import Path

from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.completer import Completer
from efim_ls.completion.models.kv_persistence import open_for
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.models.saved_documents import StoredDocuments
from efim_ls.completion.planning.window import Budget
from efim_ls.settings import Settings
from kv_store.open import OpenedStore
from model_runtime.engine.local import LocalEngine
from model_runtime.kv.arena import Arena
from model_runtime.kv.pool import FrameId
from model_runtime.loading.load import LoadedModel, Model


def in_memory(model: LoadedModel, mib: int = 16) -> OpenedStore:
    """One that writes nothing to disk."""
    return open_for(model.kv, Settings(persist=False), "tiny", mib)


def on_disk(model: LoadedModel, folder: Path) -> OpenedStore:
    """One below a folder."""
    return open_for(model.kv, Settings(cache_folder=str(folder), disk_mib=16), "tiny", 64)


def completer_over(
    engine: LocalEngine, model: Model, settings: Settings, budget: Budget, store: OpenedStore
) -> Completer:
    """A completer over an engine, which notes in a store what it plans."""
    documents = StoredDocuments(store, budget, settings)
    return Completer.over(OpenedModel(model, engine, budget, engine.capacity, documents), settings)


def arena_of(completer: Completer, frame: FrameId) -> Arena:
    """The arena of a frame in a completer that was loaded."""
    assert isinstance(model := completer.models.first._opened.model, LoadedModel)
    arena = model.parts.pool.get(frame)
    assert arena is not None
    return arena


def adopt_frames(cold: Completer, warm: Completer, uri: str) -> None:
    """Give a completer what another one has planned and suggested, and nothing that it has computed."""
    for name, document in {uri: None, **warm._documents}.items():
        saved = document.saved if document else warm.models.first._saved.recall(name)
        cold._model_of[name] = model = cold.models.first
        twin = cold._documents[name] = DocumentState(model.model_answerer.new_planner, saved)
        if document and document.unsaved:
            twin._planner = document.planner.copy()
        if document:
            twin.suggestions._suggestions = document.suggestions._suggestions.copy()
            twin._counts = document._counts  # made under another view, a suggestion no longer stands
