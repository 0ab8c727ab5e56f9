"""Who computes a model: our own decoder, or transformers where that does not know the architecture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from model_runtime.config import ModelConfig, UnknownArchitecture, read_config
from model_runtime.errors import ModelError


def read_architecture(folder: Path) -> ModelConfig:
    """Read `config.json`; ModelError where neither decoder could compute the model."""
    try:
        return read_config(folder)
    except UnknownArchitecture as error:
        if not find_spec("transformers"):
            remedy = "pip install 'efim-ls[foreign]', whose transformers may know it"
            raise ModelError(f"{error}; or {remedy}") from None
        from model_runtime.foreign.config import foreign_config  # transformers takes two seconds to import

        return foreign_config(folder)
