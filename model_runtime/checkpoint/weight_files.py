"""Finds the files of a checkpoint's weights: safetensors in its own folder, or GGUF, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from model_runtime.checkpoint.families.fields import read_json
from model_runtime.checkpoint.gguf.header import PICTURES, part_paths
from model_runtime.errors import ModelError
from model_runtime.regular_files import check_regular

SINGLE_FILE = "model.safetensors"
ADAPTER_FILE = "adapter_config.json"
MERGE = "use the model that merge_and_unload of peft makes of it"
INDEX_FILE = f"{SINGLE_FILE}.index.json"
CONSOLIDATED_FILE, MISTRAL_FILE = "consolidated.safetensors", "params.json"
MISTRAL_LAYOUT = "Mistral's own layout, which is not read: use the files that transformers reads"
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a checkpoint, or its GGUF files.

    ModelError if one is missing or their folder has an adapter.
    """
    refuse_adapter(folder)
    if file := gguf_file(folder):
        return [regular_file(path) for path in part_paths(file)]
    if (folder / SINGLE_FILE).exists():
        return [regular_file(folder / SINGLE_FILE)]
    if not (folder / INDEX_FILE).exists():
        raise ModelError(_without_weights(folder))
    paths = [folder / name for name in shard_names(folder / INDEX_FILE)]
    for path in paths:
        if not path.exists():
            raise ModelError(f"shard {path} is missing: fetch the model again")
    return [regular_file(path) for path in paths]


def hashed_files(folder: Path) -> list[Path]:
    """Return the files that a checkpoint's keys and values depend on: weights and tokenizer."""
    return weight_files(folder) + ([] if gguf_file(folder) else [folder / "tokenizer.json"])


def gguf_file(folder: Path) -> Path | None:
    """Return the GGUF file that a path names, the first of several parts, or the only one in its folder.

    None if a folder has none, or has weights in safetensors; ModelError if it has several.
    """
    if not folder.is_dir():
        return part_paths(folder)[0]
    if (folder / SINGLE_FILE).exists() or (folder / INDEX_FILE).exists():
        return None
    names = [name for name in _names(folder, "*.gguf") if PICTURES not in name]
    if len(found := sorted({part_paths(folder / name)[0] for name in names})) > 1:
        raise ModelError(f"{folder} holds {len(found)} models in GGUF: name a file, such as {found[0].name}")
    return found[0] if found else None


def holds_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter, and no weights of a whole model."""
    return (folder / ADAPTER_FILE).is_file() and not any(
        (folder / name).exists() for name in (SINGLE_FILE, INDEX_FILE)
    )


def refuse_adapter(folder: Path) -> None:
    """Raise ModelError if a folder holds an adapter, which transformers would add to the weights, unasked."""
    if (folder / ADAPTER_FILE).is_file():
        raise ModelError(f"{folder} holds an adapter ({ADAPTER_FILE}) where a whole model is needed: {MERGE}")


def refuse_other_layouts(folder: Path) -> None:
    """Raise ModelError if a folder is without `config.json` since it holds a model in another layout."""
    if (folder / "config.json").exists():
        return
    refuse_adapter(folder)
    if (folder / MISTRAL_FILE).exists():
        raise ModelError(f"{folder} has {MISTRAL_FILE}, but no config.json: it is in {MISTRAL_LAYOUT}")


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
    """Return what a folder has in place of weights, and what helps."""
    if shards := _names(folder, "*-of-*.safetensors"):
        return f"{folder} has {shards[0]}, but no {INDEX_FILE}, which names the shards: fetch that file, too"
    if (folder / CONSOLIDATED_FILE).exists():
        return f"{folder} has {CONSOLIDATED_FILE}, but no {SINGLE_FILE}: it is in {MISTRAL_LAYOUT}"
    if others := _names(folder, "*.safetensors"):
        return f"{folder} has {others[0]}, but no {SINGLE_FILE}: if it holds the whole model, rename it so"
    if pickles := [name for kind in PICKLE_PATTERNS for name in _names(folder, kind)]:
        how = "convert the weights with save_pretrained of transformers, where you trust them"
        cause = f"{folder} has no {SINGLE_FILE}, only {min(pickles)}, a pickle: it can hold code and is never opened"
        return f"{cause}; {how}"
    return f"{folder} holds no {SINGLE_FILE}: choose a folder with weights in safetensors"


def _names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))
