"""Checks the configured model's name and files before what computes is imported."""

from __future__ import annotations

from contextlib import suppress

from efim_ls.settings import Settings
from model_runtime.checkpoint.config import UnknownArchitecture, read_config
from model_runtime.checkpoint.hub.names import checked_revision, hub_name, local_folder
from model_runtime.checkpoint.weight_files import weight_files


def check_model_files(settings: Settings) -> None:
    """Raise ModelError if the setting names no model, or a folder whose files cannot be one."""
    folder = local_folder(settings.model)
    if folder is None:  # a repository of the hub: what it holds is checked when it is fetched
        checked_revision(hub_name(settings.model)[1])
        return
    with suppress(UnknownArchitecture):  # transformers may know it
        read_config(folder)
    weight_files(folder)
