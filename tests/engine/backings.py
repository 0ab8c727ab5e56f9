"""Stores for tests: in memory only, or in a folder."""

from __future__ import annotations

from pathlib import Path

from efim_ls.completion.kv_persistence import Backing
from efim_ls.completion.window import Budget
from efim_ls.settings import Settings
from model_runtime.loading.load import Model


def in_memory(model: Model, budget: Budget, mib: int = 16) -> Backing:
    """One that writes nothing to disk."""
    return Backing.open(model.kv, Settings(persist=False, host_memory_mib=mib), "tiny", budget)


def on_disk(model: Model, budget: Budget, folder: Path) -> Backing:
    """One below a folder."""
    return Backing.open(model.kv, Settings(cache_folder=str(folder), disk_mib=16), "tiny", budget)
