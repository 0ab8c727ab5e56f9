"""Opens a model on another machine: its tokenizer and its template are here, its weights there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from efim_ls.completion.models.open import Progress, RemoteModel, capacity, fit_budget
from efim_ls.completion.suggestions.sureness import read_sureness
from efim_ls.settings import Settings
from model_runtime.checkpoint.config import read_languages
from model_runtime.checkpoint.hub.fetch import fetch_tokenizer
from model_runtime.checkpoint.hub_names import cached_folder, hub_name, local_folder
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import Model
from model_runtime.remote.engine import RemoteEngine


def tokenizer_folder(settings: Settings) -> Path | None:
    """Return the folder that has the tokenizer of the server's model, None if it is not here."""
    return local_folder(settings.model) or cached_folder(*hub_name(settings.model)[:2], weights=False)


def fetch_elsewhere(settings: Settings, progress: Progress) -> None:
    """Download the tokenizer of the server's model, if it is not here; raises ModelError."""
    if tokenizer_folder(settings) is None:
        fetch_tokenizer(*hub_name(settings.model)[:2], progress)


def open_elsewhere(settings: Settings) -> RemoteModel:
    """Return the model with an engine that asks its server, which may be down for now; raises ModelError."""
    folder = tokenizer_folder(settings)
    if folder is None:
        raise ModelError(f"the tokenizer of {settings.model} is not here: open an editor, which fetches it")
    checkpoint = read_checkpoint(folder, settings.template)
    config = checkpoint.config.plain  # no text of other files is sent
    budget = replace(
        fit_budget(settings, config, checkpoint.template.markers),
        reason="the model is on another machine, where no text of other files is sent",
    )
    tokens = min(capacity(settings, budget), config.context)
    engine = RemoteEngine(
        settings.engine,
        checkpoint.tokenizer,
        tokens,
        {*config.end_ids, *checkpoint.template.ends},
        read_languages(checkpoint.folder),
    )
    model = Model(folder=folder, tokenizer=checkpoint.tokenizer, template=checkpoint.template, ngrams=None)
    return RemoteModel(model, engine, budget, tokens, sureness=read_sureness(folder))
