"""Finds the files of a checkpoint's weights: safetensors in its own folder, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from model_runtime.checkpoint.config import read_json
from model_runtime.errors import ModelError
from model_runtime.regular_files import check_regular

SINGLE_FILE = "model.safetensors"
ADAPTER_FILE = "adapter_config.json"
INDEX_FILE = f"{SINGLE_FILE}.index.json"
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a checkpoint; ModelError if one is missing or an adapter lies beside them."""
    if (folder / ADAPTER_FILE).is_file():  # transformers would add it to the weights, unasked
        how = "use the model that merge_and_unload of peft makes of it"
        raise ModelError(f"{folder} holds an adapter ({ADAPTER_FILE}), which is not read: {how}")
    if (folder / SINGLE_FILE).exists():
        return [regular_file(folder / SINGLE_FILE)]
    if not (folder / INDEX_FILE).exists():
        raise ModelError(_without_weights(folder))
    paths = [folder / name for name in shard_names(folder / INDEX_FILE)]
    for path in paths:
        if not path.exists():
            raise ModelError(f"shard {path} is missing: fetch the model again")
    return [regular_file(path) for path in paths]


def regular_file(path: Path) -> Path:
    """Return the path of a file of a model; ModelError if it is a pipe, a device or anything else but a file."""
    try:
        check_regular(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    return path


def shard_names(index: Path) -> list[str]:
    """Return the safetensors files that an index names; ModelError if it is damaged or names anything else."""
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise ModelError(f"{index} cannot be read (it has no weight_map): fetch the model again")
    names = set(cast("dict[str, Any]", named).values())
    for name in names:
        if not isinstance(name, str) or not name.endswith(".safetensors"):
            raise ModelError(f"{index} names {name!r}, and nothing but safetensors is read: convert the weights")
        if Path(name).name != name or "\\" in name:
            raise ModelError(f"{index} names {name!r}, which is outside its folder: fetch the model again")
    return sorted(names)


def _without_weights(folder: Path) -> str:
    pickles = sorted(path.name for kind in PICKLE_PATTERNS for path in folder.glob(kind))
    if not pickles:
        return f"{folder} holds no {SINGLE_FILE}: choose a folder with weights in safetensors"
    how = "convert the weights with save_pretrained of transformers, where you trust them"
    return f"{folder} has no {SINGLE_FILE}, only {pickles[0]}, a pickle: it can hold code and is never opened; {how}"
