"""The kinds of models that the setting `model` can name: how each is checked, fetched and opened.

What computes is imported where a model is fetched or opened: commands and an editor's first seconds do without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from efim_ls.settings import DEFAULTS, Settings
from model_runtime.checkpoint.adapter import base_folder
from model_runtime.checkpoint.config import UnknownArchitecture, read_config
from model_runtime.checkpoint.hub_names import cached_folder, checked_revision, hub_name, local_folder
from model_runtime.checkpoint.weight_files import weight_files
from model_runtime.errors import ModelError
from model_runtime.machine import has_cuda_driver

if TYPE_CHECKING:
    from efim_ls.completion.models.open import OpenedModel

Progress = Callable[[str, int], None]


class ModelKind(Protocol):
    """One way to have a model. Every method but `is_named` raises ModelError."""

    def is_named(self, name: str, /) -> bool:
        """Return whether a name in the setting `model` is one of this kind."""
        ...

    def check(self, settings: Settings, /) -> None:
        """Check without reading much: the name, and files that cannot be a model's."""
        ...

    def folder(self, settings: Settings, /) -> Path | None:
        """Return the folder that has the model's tokenizer, None if it is not on this machine."""
        ...

    def fetch(self, settings: Settings, progress: Progress, beside: bool, /) -> None:
        """Fetch missing files; the last argument says whether the memory of a loaded model will be free then."""
        ...

    def open(self, settings: Settings, progress: Progress, /) -> OpenedModel:
        """Return the model with the engine that completes its prompts."""
        ...


class ComputedHere:
    """Models that this process computes, from a folder or a repository of the hub."""

    def is_named(self, name: str) -> bool:
        """Return true: other values are errors in such a name."""
        return True

    def check(self, settings: Settings) -> None:
        """Check that the setting names a model, and no folder whose files cannot be one."""
        folder = local_folder(settings.model)
        if folder is None:  # a repository of the hub: its files are checked when they are fetched
            checked_revision(hub_name(settings.model)[1])
            return
        folder = base_folder(folder)
        with suppress(UnknownArchitecture):  # transformers may know it
            read_config(folder)
        weight_files(folder)

    def folder(self, settings: Settings) -> Path | None:
        """Return the named folder, or the folder in the hub's cache."""
        return local_folder(settings.model) or cached_folder(*hub_name(settings.model))

    def fetch(self, settings: Settings, progress: Progress, beside: bool) -> None:
        """Download the model, unless it is here."""
        from efim_ls.completion.models.open import fetch

        fetch(settings, progress, beside)

    def open(self, settings: Settings, progress: Progress) -> OpenedModel:
        """Load the model, and open the store of its keys and values."""
        from efim_ls.completion.models.open import load_model, with_store

        model, budget = load_model(settings, progress)
        progress("opening the KV store", 95)
        return with_store(model, budget, settings)


class ComputedElsewhere(ComputedHere):
    """Models on the server that the setting `engine` names, with the embedded one, computed here, that answers first.

    Of the server's model nothing is needed here but what prompts are made with.
    """

    def check(self, settings: Settings) -> None:
        """Check that the setting names a model whose tokenizer can be had."""
        if local_folder(settings.model) is None:
            checked_revision(hub_name(settings.model)[1])

    def folder(self, settings: Settings) -> Path | None:
        """Return the folder of the model that is computed here."""
        return super().folder(_here(settings))

    def fetch(self, settings: Settings, progress: Progress, beside: bool) -> None:
        """Download the tokenizer of the server's model, unless it is here."""
        from efim_ls.completion.models.elsewhere import fetch_elsewhere

        fetch_elsewhere(settings, progress)

    def open(self, settings: Settings, progress: Progress) -> OpenedModel:
        """Load the local model that answers next to the remote one."""
        from efim_ls.completion.models.elsewhere import open_elsewhere

        remote = open_elsewhere(settings)
        return replace(super().open(_here(settings), progress), remote=remote)


def _here(settings: Settings) -> Settings:
    """Return the settings of the model that is computed here: the embedded one."""
    return replace(settings, model="", template=())


ELSEWHERE = ComputedElsewhere()
# The first that is named serves a model; the last one serves all others.
KINDS: Sequence[ModelKind] = (ComputedHere(),)


def no_progress(message: str, percent: int) -> None:
    """Tell nobody how far a model is."""


def larger_folder(settings: Settings) -> Path | None:
    """Return the folder of the model that the settings name if it is so large that embedded ones answer before it.

    Return None if it answers alone, or is not on this machine. Raises ModelError for a wrong name.
    """
    if not settings.model or settings.engine.url or settings.engine.alone:
        return None
    from model_runtime.loading.checkpoint_reader import read_architecture
    from model_runtime.loading.memory_fit import model_size
    from model_runtime.loading.threads import LARGE

    folder = kind_of(settings).folder(settings)
    with suppress(ModelError):  # who opens it names the fault
        if folder and model_size(read_architecture(folder), folder).parameters >= LARGE:
            return folder
    return None


def of_embedded(settings: Settings) -> Settings:
    """Return the settings with which embedded models are opened that answer before a larger one: it has the GPU.

    They are quicker in no other format than `auto` takes.
    """
    device = "cpu" if has_cuda_driver() else settings.device
    own = replace(settings, model="", template=(), model_languages=(), engine=DEFAULTS.engine)
    return replace(own, device=device, weights="auto")


def open_beside(settings: Settings, folder: Path) -> OpenedModel:
    """Return the model in a folder, computed here in addition to the configured model; raises ModelError."""
    own = replace(settings, model=str(folder), template=(), engine=DEFAULTS.engine)
    return ComputedHere().open(own, no_progress)


def kind_of(settings: Settings) -> ModelKind:
    """Return the kind of the model that the settings name."""
    if settings.engine.url:
        return ELSEWHERE
    return next(kind for kind in KINDS if kind.is_named(settings.model))
