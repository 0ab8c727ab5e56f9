"""Tiny models on disk, made once a run; every test here computes on one thread."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import quick_decoder_of
from tests.models import Tiny, make

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama."""
    return make(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2, its head not tied, stored as published ones are."""
    return make(tmp_path_factory.mktemp("qwen2"), Tiny(family="qwen2", tied=False, seed=1), half=True)


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer that all tiny models share."""
    return Tokenizer(folder / "tokenizer.json")


@pytest.fixture(scope="session")
def decoder(folder: Path) -> AnyDecoder:
    """The tiny Llama's decoder; it keeps nothing between passes."""
    return quick_decoder_of(folder)
