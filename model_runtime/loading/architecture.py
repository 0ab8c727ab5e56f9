"""Who computes a model: our own decoder, or transformers where that does not know the architecture."""

from __future__ import annotations

from pathlib import Path

from model_runtime.checkpoint.config import ModelConfig, UnknownArchitecture, read_config
from model_runtime.errors import ModelError


def read_architecture(folder: Path) -> ModelConfig:
    """Read `config.json`; ModelError where neither decoder could compute the model."""
    try:
        return read_config(folder)
    except UnknownArchitecture as error:
        try:
            from model_runtime.decoder.hf.config import foreign_config  # transformers takes two seconds to import
        except ImportError as missing:
            reason = str(missing).partition("\n")[0]
            needed = f"transformers 5.23 or newer, which may know it, is not here ({reason})"
            raise ModelError(f"{error}; {needed}: run pip install '.[foreign]' in a clone of efim-ls") from None
        return foreign_config(folder)
