"""All of a checkpoint but its weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.loading.architecture import read_architecture
from model_runtime.loading.checking import read_tokenizer
from model_runtime.prompt.template import Template, find_template
from model_runtime.prompt.tokenizer import Tokenizer

Override = Sequence[tuple[str, str | Sequence[str]]]  # of the infilling markers: what a user says of them


class Checkpoint(NamedTuple):
    """What prompts for a model are made with, and where its weights are."""

    folder: Path
    config: ModelConfig
    tokenizer: Tokenizer
    template: Template


def read_checkpoint(folder: Path, override: Override = ()) -> Checkpoint:
    """Read a folder; ModelError names what is wrong with it."""
    config = read_architecture(folder)
    tokenizer = read_tokenizer(folder, config)
    return Checkpoint(folder, config, tokenizer, find_template(tokenizer, dict(override), config.end_ids))
