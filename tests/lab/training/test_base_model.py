"""The model to fine-tune is fetched from the hub as any other, and refused if it has no markers."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_lab.workshop.training.finetune import base
from model_runtime.checkpoint.hub_names import cached_folder
from model_runtime.errors import ModelError
from tests.unit.checkpoint.hub_server import COMMIT, Hub
from tests.unit.checkpoint.published import folder, hub

__all__ = ["folder", "hub"]
NAME = "owner/tiny"


def test_a_fine_tuning_fetches_its_base(hub: Hub, folder: Path) -> None:
    found = base.find_base(NAME)
    assert (found.name, found.folder.parent.name) == (NAME, "snapshots")
    assert (found.folder / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    asked = len(hub.asked)
    assert base.find_base(NAME).folder == found.folder
    assert len(hub.asked) == asked


def test_a_fine_tuning_fetches_the_revision_that_is_asked_for(hub: Hub) -> None:
    hub.revisions = {"v1.0": COMMIT}
    with pytest.raises(ModelError, match="no revision 'main'"):
        base.find_base(NAME)
    assert base.find_base(NAME, "v1.0").folder == cached_folder(NAME, "v1.0")


def test_a_base_without_markers_is_refused_before_its_weights_are_asked_for(hub: Hub, folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace("<|fim_", "<|no_"), encoding="utf-8")
    with pytest.raises(ModelError, match="fill-in-the-middle"):
        base.find_base(NAME)
    assert "model.safetensors" not in hub.files_asked()
