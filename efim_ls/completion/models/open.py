"""Downloads and loads the configured model, and fits the prompt's budget to the model's context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from efim_ls.completion.models.kv_persistence import CacheFile, KvPersistence, open_for
from efim_ls.completion.models.saved_documents import SavedDocuments, StoredDocuments
from efim_ls.completion.planning.window import MARKERS, Budget
from efim_ls.completion.suggestions.sureness import (
    Sureness,
    calibrated_path,
    embedded_sureness,
    read_calibrated,
    read_sureness,
)
from efim_ls.memory_shares import MemoryShares, share_out
from efim_ls.paths import HASHES, OVERFLOW, cache_folder
from efim_ls.settings import Settings
from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.hub.fetch import fetch_folder
from model_runtime.checkpoint.hub_names import cached_folder, hub_name, local_folder
from model_runtime.engine.engine import Engine, KeepingEngine
from model_runtime.engine.local import LocalEngine
from model_runtime.errors import ModelError
from model_runtime.kv.layout import arena_bytes
from model_runtime.loading.checkpoint_reader import Checkpoint, read_checkpoint
from model_runtime.loading.decoders import LoadOptions
from model_runtime.loading.load import LoadedModel, Model, load, plan_load
from model_runtime.loading.memory_fit import FitRequest, fit_on_cpu, model_size
from model_runtime.loading.threads import LARGE, choose_threads, read_cpus
from model_runtime.machine import cuda_missing, releasable_memory
from model_runtime.prompt.context import ContextBudget
from model_runtime.shelves.excerpts.excerpts import budget_of

if TYPE_CHECKING:
    from model_runtime.remote.engine import RemoteEngine

MIB = 1 << 20
LEAST_PROMPT = 16  # tokens; a shorter prompt is useless
SHORTEST_HEAD = 320  # tokens of the head of its first prompt at a place, of which about 200 are used
LEAST_READER = 1_000_000_000  # parameters of a model that gains by other files' text (docs/models.md)
SWITCHED_OFF = "switched off"  # the reason where a model would read other files' text by itself
FETCHED, LOADED = 90, 95  # percent of the progress if the model must be downloaded first

Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class ServedModel:
    """A model whose prompts an engine completes.

    `budget` bounds the parts of a prompt, `capacity` the tokens of a prompt with its answer. `sureness` judges the
    answers.
    """

    model: Model
    engine: Engine
    budget: Budget
    capacity: int
    sureness: Sureness = field(default_factory=embedded_sureness, kw_only=True)


@dataclass(frozen=True)
class RemoteModel(ServedModel):
    """A model on a server; its tokenizer is here."""

    engine: RemoteEngine


@dataclass(frozen=True)
class OpenedModel(ServedModel):
    """A model in this process, with the notes on its documents.

    Where clients share it, `leave` says that this one no longer uses it, and returns whether no other does. A
    `remote` one is asked as well.
    """

    engine: KeepingEngine
    documents: SavedDocuments = SavedDocuments()
    leave: Callable[[], bool] | None = None
    remote: RemoteModel | None = None

    @property
    def reads_by_itself(self) -> bool:
        """Whether prompts show text of other files if the settings leave that to the model."""
        return any(self.budget.context) or self.budget.reason == SWITCHED_OFF

    def for_client(self, settings: Settings, leave: Callable[[], bool]) -> OpenedModel:
        """Return the same model as another client's settings allow to use it."""
        return replace(self, documents=self.documents.for_client(settings), leave=leave)

    def close(self, seconds: float, write: bool) -> None:
        """Write the queue for up to `seconds`, or discard it unless `write`, and end.

        A shared engine goes on, and keeps other clients' queues.
        """
        is_last = self.leave is None or self.leave()
        if not write and is_last:
            self.documents.discard()
        if self.leave is None:
            self.engine.close(seconds)
            if self.remote is not None:
                self.remote.engine.close(seconds)


def load_model(settings: Settings, progress: Progress) -> tuple[LoadedModel, Budget]:
    """Load the configured model with arenas for its longest prompt; raises ModelError."""
    folder, progress = _found(settings, progress)
    progress("reading the tokenizer", 5)
    checkpoint, budget = _read(settings, folder)
    options = _load_options(settings, budget, checkpoint)
    model = load(checkpoint, ngrams=True, progress=progress, **options)
    described = model.parts.description
    is_slow = described.device == "cpu" and described.parameters >= LARGE and settings.prefetch_seconds_per_minute > 0
    return model, replace(budget, shortest=SHORTEST_HEAD) if is_slow and budget.head >= 4 * SHORTEST_HEAD else budget


def with_store(model: LoadedModel, budget: Budget, settings: Settings) -> OpenedModel:
    """Return a model with its engine, over the configured store; raises ModelError."""
    calibrated = calibrated_path(cache_folder(settings.cache_folder), model.digest)
    sureness = read_calibrated(calibrated) or read_sureness(model.folder)
    arena = model.kv.layout.arena_bytes(model.excerpt_rows + model.parts.capacity)
    opened = open_for(model.kv, settings, model.parts.description.model, _shares(settings, arena).held)
    engine = LocalEngine(model.parts, KvPersistence(opened.store))
    documents = StoredDocuments(opened, budget, settings)
    return OpenedModel(model, engine, budget, model.parts.capacity, documents, sureness=sureness)


def _read(settings: Settings, folder: Path) -> tuple[Checkpoint, Budget]:
    """Return a checkpoint and the budget of its prompts; its rows for other files' text only if they show some."""
    checkpoint = read_checkpoint(folder, settings.template)
    is_on, reason = shows_other_files(settings, checkpoint)
    if not is_on:
        checkpoint = checkpoint._replace(config=checkpoint.config.plain)
    config, template = checkpoint.config, checkpoint.template
    context = budget_of(config.excerpt_rows, template.shows_similar) if is_on else ()
    budget = fit_budget(settings, config, template.markers, context)
    return checkpoint, replace(budget, reason=reason)


def shows_other_files(settings: Settings, checkpoint: Checkpoint) -> tuple[bool, str]:
    """Return whether prompts show text of other files, and the reason."""
    if settings.other_files == "text":
        return True, "switched on"
    if checkpoint.template.files is None:
        return False, "the model was not trained on repositories"
    if (parameters := model_size(checkpoint.config, checkpoint.folder).parameters) < LEAST_READER:
        return False, f"the model has {parameters / 1e6:,.0f} million parameters: too few to gain by it"
    if settings.other_files != "auto":
        return False, SWITCHED_OFF
    return True, f"the model was trained on repositories and has {parameters / 1e9:.1f} billion parameters"


def _shares(settings: Settings, arena: int) -> MemoryShares:
    """Return what each use of memory gets if an arena takes this many bytes."""
    return share_out(settings.memory_mib, -(-arena // MIB))


def _load_options(settings: Settings, budget: Budget, checkpoint: Checkpoint) -> LoadOptions:
    config = checkpoint.config
    choice = choose_threads(settings.threads, model_size(config, checkpoint.folder).parameters, read_cpus())
    arena = arena_bytes(config, min(capacity(settings, budget), config.context))
    cache = cache_folder(settings.cache_folder)
    return LoadOptions(
        device=settings.device,
        weights=settings.weights,
        threads=choice.threads,
        threads_reason=choice.reason,
        capacity=capacity(settings, budget),
        kv_memory_mib=_shares(settings, arena).arenas,
        hash_notes=CacheFile(cache / HASHES) if settings.persist else None,
        overflow=cache / OVERFLOW if settings.persist else None,
        approximations=settings.approximations,
    )


def fetch(settings: Settings, progress: Progress, beside: bool) -> None:
    """Download the configured model if needed; raises ModelError if that fails or it cannot be used here.

    With another model loaded, its memory will be free before this model is loaded.
    """
    _found(settings, progress, beside)


def _found(settings: Settings, progress: Progress, beside: bool = False) -> tuple[Path, Progress]:
    """Return the path of the configured model, downloaded if needed, and a callback for the remaining progress."""
    if folder := local_folder(settings.model):
        return folder, progress
    named = hub_name(settings.model)
    if folder := cached_folder(*named):
        return folder, progress
    folder = fetch_folder(named, partial(_between, progress, 0, FETCHED), partial(_check, settings, beside))
    return folder, partial(_between, progress, FETCHED, LOADED)


def _between(progress: Progress, start: int, end: int, message: str, percent: int) -> None:
    progress(message, start + (end - start) * percent // 100)


def _check(settings: Settings, beside: bool, folder: Path, _: int) -> None:
    """Raise ModelError for a model that cannot be used here, before gigabytes are downloaded.

    If another model is loaded, the GPU, which may be busy, is not checked, and this process' own memory counts as
    free.
    """
    checkpoint, budget = _read(settings, folder)
    if not beside:
        plan_load(checkpoint, **_load_options(settings, budget, checkpoint))
    elif settings.device == "cpu" or checkpoint.config.foreign or cuda_missing():
        request = FitRequest(checkpoint.config, settings.weights, 0, folder, releasable_memory())
        fit_on_cpu(request, in_part=settings.persist)


def capacity(settings: Settings, budget: Budget) -> int:
    """Return the tokens of an arena: the longest prompt and the new tokens after it."""
    return budget.prompt_tokens + settings.max_new_tokens


def fit_budget(
    settings: Settings, config: ModelConfig, markers: int = MARKERS, context: ContextBudget = ()
) -> Budget:
    """Return the configured budget, scaled down if a prompt and new tokens would exceed the model's context."""
    wanted = Budget(settings.head_tokens, settings.tail_tokens, markers, context, apart=config.excerpt_rows > 0)
    room = config.context - markers - settings.max_new_tokens
    if room < LEAST_PROMPT:
        limits = f"a context of {config.context} tokens has no room for a suggestion of {settings.max_new_tokens}"
        raise ModelError(f"{limits}: lower max_lines or use a model with a longer context")
    share = min(1.0, room / (wanted.head + wanted.tail + wanted.typed + wanted.context_tokens))
    shared = context if wanted.apart else tuple(int(tokens * share) for tokens in context)
    return replace(wanted, head=int(wanted.head * share), tail=int(wanted.tail * share), context=shared)
