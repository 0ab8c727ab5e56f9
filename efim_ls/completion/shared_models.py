"""The models that are in memory, each used by all clients whose settings name it."""

from __future__ import annotations

import gc
import itertools
import logging
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from efim_ls.completion.answerers.elsewhere import ElsewhereAnswerer
from efim_ls.completion.answerers.remote import asking_server
from efim_ls.completion.completer import Completer
from efim_ls.completion.larger import LargerDocuments, LargerModel
from efim_ls.completion.model_in_use import ModelInUse
from efim_ls.completion.models.kinds import kind_of, larger_folder, of_embedded, open_beside
from efim_ls.completion.models.open import OpenedModel
from efim_ls.completion.models_by_language import Models
from efim_ls.settings import DEFAULTS, Settings
from model_runtime.checkpoint.gguf.header import part_paths
from model_runtime.checkpoint.hub_names import hub_origin

OF_CLIENT = ("private_files", "max_lines", "model_languages")  # settings that clients of one model may differ in
# Settings that the models differ in which share the memory of a client.
OF_ONE_MODEL = ("model", "template", "engine", "device", "other_files")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelKey:
    """What makes two clients share a model: settings, and the model's files as they were when it was loaded.

    `new_tokens` follow from a client's lines, and an arena has room for them. A `folder` holds a model for languages
    that the one of the settings does not know.
    """

    settings: Settings
    new_tokens: int
    folder: Path | None
    files: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(cls, settings: Settings, folder: Path | None = None) -> ModelKey:
        """Return the key of the configured model, or of a second model; without files, by names alone."""
        found = folder or kind_of(settings).folder(settings)
        paths = sorted(found.iterdir() if found.is_dir() else part_paths(found)) if found else []
        stats = [(path.name, path.stat()) for path in paths]
        files = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        of_client = {name: getattr(DEFAULTS, name) for name in OF_CLIENT}
        return cls(replace(settings.of_model, **of_client), settings.max_new_tokens, folder, files)

    @property
    def granted(self) -> tuple[Settings, int]:
        """What models have in common that share the memory which one client's settings grant."""
        of_one_model = {name: getattr(DEFAULTS, name) for name in OF_ONE_MODEL}
        return replace(self.settings, **of_one_model), self.new_tokens

    def reading(self, other_files: Literal["auto", "phrases"]) -> ModelKey:
        """Return the key of the same model under another value of that setting."""
        return replace(self, settings=replace(self.settings, other_files=other_files))


@dataclass
class SharedModel:
    """A model in memory, and the names of the clients that use it now, and of those that have documents for it."""

    opened: OpenedModel
    clients: set[str] = field(default_factory=set[str])
    working: set[str] = field(default_factory=set[str])

    def leave(self, client: str) -> bool:
        """Forget a client; return whether no other uses the model."""
        self.clients.discard(client)
        self.working.discard(client)
        return not self.clients

    @property
    def name(self) -> str:
        """The model's name or folder; on any thread."""
        return self.opened.engine.describe().model

    def share_memory(self, parts: int) -> None:
        """Use one of `parts` equal parts of the memory for keys and values."""
        self.opened.engine.share_memory(parts)


class SharedModels:
    """Models that stay in memory while a client uses them and, if they are `lasting`, until they are asked to go.

    Used on the engine thread only.
    """

    def __init__(self, lasting: bool = True) -> None:
        self._lasting = lasting
        self._loaded: dict[ModelKey, SharedModel] = {}
        self._larger: dict[ModelKey, LargerModel] = {}
        self._alike: dict[ModelKey, ModelKey] = {}  # of models that by themselves read no text of other files
        self._numbers = itertools.count(1)

    def load(self, settings: Settings, progress: Callable[[str, int], None]) -> Completer:
        """Return a client's completer, with models that are in memory or are loaded; raises ModelError.

        A larger model is not loaded yet: the completer opens it.
        """
        larger = larger_folder(settings)
        here = of_embedded(settings) if larger else settings
        elsewhere = self._asking_larger(settings, larger) if larger else None
        with ExitStack() as failing:
            if elsewhere:
                failing.callback(elsewhere.close, 0, None)
            shared = self._loaded_model(ModelKey.of(here), partial(kind_of(here).open, here, progress))
            failing.pop_all()
        elsewhere = elsewhere or asking_server(shared.opened.remote, settings, self._new_client())

        def load_beside(folder: Path) -> ModelInUse:
            key = ModelKey.of(here, folder)
            return self._used(self._loaded_model(key, partial(open_beside, here, folder)), here, elsewhere)

        first = self._used(shared, here, elsewhere)
        models = Models(first, here, load_beside, self.close_unused, self._lasting)
        return Completer(models, settings)

    def close_unused(self, seconds: float) -> None:
        """Close the models that no client uses; each has `seconds` to write its queue."""
        unused = [(of, key) for of in (self._larger, self._loaded) for key, each in of.items() if not each.clients]
        for of, key in unused:
            try:
                model = of.pop(key)
                if isinstance(model, LargerModel):
                    model.close(seconds)
                else:
                    model.opened.close(seconds, write=True)
            except Exception as error:  # the next one still has something to write
                logger.error("a model could not be closed", exc_info=error)
        if unused:
            gc.collect()  # cycles may keep a model alive, and its arenas are large
            self._share_memory()

    def describe(self) -> list[dict[str, object]]:
        """Return the models in memory, and how many clients use each; on any thread."""
        return [{"model": each.name, "clients": len(each.clients)} for _, each in self._all]

    @property
    def _all(self) -> list[tuple[ModelKey, SharedModel | LargerModel]]:
        return [*self._loaded.items(), *self._larger.items()]

    def _loaded_model(self, key: ModelKey, load: Callable[[], OpenedModel]) -> SharedModel:
        """Return a model that is in memory, or is loaded now; raises ModelError."""
        key = self._alike.get(key, key)
        if key not in self._loaded:
            self.close_unused(0)
            opened = load()
            if key.settings.other_files != "text" and not opened.reads_by_itself:
                by_itself, key = key.reading("auto"), key.reading("phrases")
                self._alike[by_itself] = key
            self._loaded[key] = SharedModel(opened)
            self._share_memory()
        return self._loaded[key]

    def _asking_larger(self, settings: Settings, folder: Path) -> ElsewhereAnswerer:
        """Return who asks the model that the settings name, in a folder: one in memory, or one to be opened."""
        key = ModelKey.of(settings, folder)
        if key not in self._larger:
            self.close_unused(0)
            name, _ = hub_origin(folder)
            self._larger[key] = LargerModel(name, partial(kind_of(settings).open, settings))
        documents = LargerDocuments(self._larger[key], settings, self._new_client())
        return ElsewhereAnswerer(documents, settings.engine.wait_seconds)

    def _new_client(self) -> str:
        return f"{next(self._numbers)} "

    def _used(self, shared: SharedModel, settings: Settings, elsewhere: ElsewhereAnswerer | None) -> ModelInUse:
        """Return a model for one more client."""
        client = self._new_client()
        shared.clients.add(client)
        opened = shared.opened.for_client(settings, partial(shared.leave, client))

        def work(is_working: bool) -> None:
            (shared.working.add if is_working else shared.working.discard)(client)
            self._share_memory()

        return ModelInUse(opened, settings, client, work, elsewhere)

    def _share_memory(self) -> None:
        """Share the memory that the same settings grant evenly between the models that clients work with.

        The others keep one place each; while nobody works, all models count as in use.
        """
        working = Counter(key.granted for key, shared in self._all if shared.working)
        loaded = Counter(key.granted for key, _ in self._all)
        for key, shared in self._all:
            parts = working[key.granted] or loaded[key.granted]
            has_part = shared.working or not working[key.granted]
            shared.share_memory(parts if has_part else sys.maxsize)
