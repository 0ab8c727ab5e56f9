"""From settings to a loaded model, and the most text that its context and memory leave to a prompt."""

from __future__ import annotations

from collections.abc import Callable

from efim_ls.folders import SPEED, cache_folder
from efim_ls.settings import Settings
from efim_ls.window import MARKERS, Budget
from model_runtime.config import ModelConfig, model_folder, read_config
from model_runtime.errors import ModelError
from model_runtime.load import Model, load

LEAST_PROMPT = 16  # tokens below which a prompt tells nothing


def load_model(settings: Settings, progress: Callable[[str, int], None]) -> tuple[Model, Budget]:
    """Load the model that the settings name, with arenas for the prompts that fit it; raises ModelError."""
    folder = model_folder(settings.model)
    budget = fit_budget(settings, read_config(folder))
    speed = cache_folder(settings.cache_folder) / SPEED
    model = load(
        folder,
        device=settings.device,
        weights=settings.weights,
        threads=settings.threads,
        capacity=budget.prompt_tokens + settings.max_new_tokens,
        kv_memory_mib=settings.kv_memory_mib,
        local_cache=settings.local_cache,
        measured=speed if settings.persist or speed.is_file() else None,
        progress=progress,
    )
    return model, budget


def fit_budget(settings: Settings, config: ModelConfig) -> Budget:
    """Shrink the wanted budget in proportion where head, tail, typed and new text exceed the model's context."""
    wanted = Budget(settings.head_tokens, settings.tail_tokens)
    room = config.context - MARKERS - settings.max_new_tokens
    if room < LEAST_PROMPT:
        limits = f"a context of {config.context} tokens has no room for max_new_tokens {settings.max_new_tokens}"
        raise ModelError(f"{limits}: lower the setting or use a model with a longer context")
    share = min(1.0, room / (wanted.head + wanted.tail + wanted.typed))
    return Budget(int(wanted.head * share), int(wanted.tail * share))
