"""A hub that publishes a tiny model, with what is never to be asked for beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from model_runtime.checkpoint.hub import download
from tests.models import make
from tests.unit.checkpoint.hub_server import Hub, serving

NEVER = ("pytorch_model.bin", "modeling.py", "README.md", "model.gguf", "other.safetensors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is published: a model, and beside it what is never to be asked for."""
    folder = make(tmp_path / "published")
    for name in NEVER:
        (folder / name).write_bytes(b"never")
    return folder


@pytest.fixture
def hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tiny=folder) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache" / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no token"))
        monkeypatch.setattr(download, "PAUSE", 0.01)
        yield hub
