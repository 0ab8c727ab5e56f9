"""Harm to a checkpoint's folder that holds model.safetensors."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file, save_file


def lacking(folder: Path) -> None:
    """Take a tensor out."""
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def cut_short(folder: Path) -> None:
    """Cut the end off."""
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-64])
