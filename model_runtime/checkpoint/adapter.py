"""Reads a low-rank adapter (LoRA, arXiv 2106.09685) that PEFT saved, and merges it into the weights of its base."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.fields import Fields, read_json
from model_runtime.checkpoint.gguf.tensors import Blocks
from model_runtime.checkpoint.hub_names import REPOSITORY_NAME, cached_folder
from model_runtime.checkpoint.tensor_shapes import EMBEDDING, HEAD, expected_shapes, stored_name
from model_runtime.checkpoint.tensors.compact import DTYPES, Fp32, StoredTensor, map_tensors
from model_runtime.checkpoint.weight_files import ADAPTER_FILE, MERGE, holds_adapter, regular_file
from model_runtime.checkpoint.weights import StoredWeights, as_fp32
from model_runtime.errors import ModelError

WEIGHTS_FILE, PICKLE = "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."  # of PEFT's wrappers
FACTOR = re.compile(r"(.+)\.lora_(A\.weight|B\.weight|embedding_A|embedding_B)")
REPLACED = re.compile(r"(.+?)(?:\.base_layer|\.modules_to_save)?\.(weight|bias)")
# Options that are read below, or have no effect on the merged weights. Any other that is set is refused: new versions
# of PEFT have new ones, each with weights of another kind.
KNOWN = frozenset({
    "alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "corda_config", "eva_config",
    "exclude_modules", "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform",
    "loftq_config", "lora_alpha", "lora_dropout", "lora_ga_config", "megatron_config", "megatron_core",
    "modules_to_save", "peft_type", "peft_version", "qalora_group_size", "r", "rank_pattern", "revision",
    "runtime_config", "target_modules", "task_type", "use_rslora",
})  # fmt: skip
# Beginnings of training that leave the base as it is; others subtract from it what the adapter begins with.
BEGINNINGS = (True, False, None, "gaussian", "orthogonal", "eva")


class LowRank(NamedTuple):
    """A change of a matrix [out, in]: `scale` times `left` [out, rank] times `right` [rank, in]."""

    left: Fp32
    right: Fp32
    scale: float

    def product(self) -> Fp32:
        """Return the change in full."""
        return np.float32(self.scale) * (self.left @ self.right)


class Adapter(NamedTuple):
    """The folder of an adapter, the folder or file of its base, and the adapter's configuration."""

    folder: Path
    base: Path
    fields: Fields

    @property
    def files(self) -> list[Path]:
        """The files that the merged weights depend on, apart from the base's."""
        return [regular_file(self.folder / ADAPTER_FILE), self._weights_file()]

    def merged(self, weights: StoredWeights, config: ModelConfig) -> StoredWeights:
        """Return the weights of the base with this adapter's changes; ModelError if it was made for another base."""
        shapes = expected_shapes(config)
        shapes.setdefault(HEAD, shapes[EMBEDDING])
        usual = {stored_name(config.family, name): name for name in shapes}
        replaced, factors = dict[str, npt.NDArray[Any]](), dict[str, dict[str, Fp32]]()
        for key, tensor in self._tensors():
            if found := FACTOR.fullmatch(key):
                module, factor = found.groups()
                factors.setdefault(module, {})[factor] = as_fp32(tensor)
            elif found := REPLACED.fullmatch(key):
                name = self._known(".".join(found.groups()), usual)
                if tensor.shape != shapes[name]:
                    raise self._refused(f"replaces {key} by {tensor.shape} numbers, the base has {shapes[name]}")
                replaced[name] = tensor
            else:
                raise self._refused(f"has {key}, which is not read")
        changes = dict[str, LowRank]()
        for module, parts in factors.items():
            name = self._known(f"{module}.weight", usual)
            changes[name] = self._low_rank(module, parts, shapes[name])
        if config.tied and HEAD not in weights and EMBEDDING in {*replaced, *changes} and HEAD not in replaced:
            raise self._refused(f"changes {EMBEDDING} alone, which is the base's output head, too")
        return AdaptedWeights(weights, replaced, changes)

    def _low_rank(self, module: str, parts: Mapping[str, Fp32], shape: tuple[int, ...]) -> LowRank:
        match parts:
            case {"A.weight": right, "B.weight": left}:
                pass
            case {"embedding_A": tokens, "embedding_B": channels}:
                left, right = tokens.T, channels.T
            case _:
                raise self._refused(f"lacks a factor of {module}")
        fits = left.ndim == right.ndim == 2 and (len(left), right.shape[1]) == shape
        if not fits or not 0 < left.shape[1] == len(right):
            sizes = f"by matrices of {left.shape} and {right.shape}, and the base has {shape}"
            raise self._refused(f"changes {module} {sizes}")
        rank = len(right)  # of these matrices: a pattern may grant another than the configuration's `r`
        divisor = math.sqrt(rank) if self.fields.flag("use_rslora") else rank
        return LowRank(left, right, self._alpha(module) / divisor)

    def _alpha(self, module: str) -> float:
        """Return the number of the first pattern that fits the end of the module's name, as PEFT does."""
        patterns = self.fields.object("alpha_pattern")
        for pattern in patterns:
            try:
                if re.match(rf"(.*\.)?({pattern})$", module):
                    return Fields(patterns, f"{self.folder / ADAPTER_FILE}, alpha_pattern").number(pattern)
            except re.error as error:
                raise self._refused(f"has {pattern!r} in alpha_pattern, no regular expression ({error})") from None
        return self.fields.number("lora_alpha")

    def _known(self, name: str, usual: Mapping[str, str]) -> str:
        if name not in usual:
            raise self._refused(f"changes {name}, which {self.base} does not have")
        return usual[name]

    def _tensors(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        path = self._weights_file()
        try:
            stored, _ = map_tensors(path)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path} cannot be read ({error}): save the adapter again") from None
        for key, tensor in stored.items():
            yield key.removeprefix(PREFIX), self._array(key, tensor)

    def _array(self, key: str, tensor: StoredTensor) -> npt.NDArray[Any]:
        if tensor.dtype not in DTYPES:
            raise self._refused(f"has {key} in {tensor.dtype}, which is not read")
        array = tensor.content.view(DTYPES[tensor.dtype]).reshape(tensor.shape)
        if not np.isfinite(as_fp32(array)).all():
            raise ModelError(f"{key} in {self.folder} contains NaN or infinity: train the adapter again")
        return array

    def _weights_file(self) -> Path:
        if (self.folder / WEIGHTS_FILE).exists():
            return regular_file(self.folder / WEIGHTS_FILE)
        if (self.folder / PICKLE).exists():
            how = "save the adapter with safe_serialization, where you trust it"
            raise ModelError(
                f"{self.folder} has only {PICKLE}, a pickle: it can hold code and is never opened; {how}"
            )
        raise ModelError(f"{self.folder} has no {WEIGHTS_FILE}: save the adapter again")

    def _refused(self, why: str) -> ModelError:
        return ModelError(f"the adapter in {self.folder} {why}: {MERGE}")


class AdaptedWeights(StoredWeights):
    """The weights of a base, some of them `replaced`, and some with `changes`, computed each time they are asked for.

    An output head that is changed while the base's is its embedding becomes a separate matrix.
    """

    def __init__(
        self, base: StoredWeights, replaced: Mapping[str, npt.NDArray[Any]], changes: Mapping[str, LowRank]
    ) -> None:
        self._base, self._replaced, self._changes = base, replaced, changes
        self._names = dict.fromkeys([*base, *replaced, *changes])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        whole = self._replaced.get(name)
        if whole is None:
            whole = self._base[EMBEDDING if name == HEAD and HEAD not in self._base else name]
        change = self._changes.get(name)
        return whole if change is None else as_fp32(whole) + change.product()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def table(self, name: str) -> npt.NDArray[Any] | Blocks:
        """Return a matrix whose rows are looked up, as the base does unless it is changed."""
        return self[name] if name in self._replaced or name in self._changes else self._base.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def release(self) -> None:
        """Take the base's files out of this process' memory; a weight that is used again is read again."""
        self._base.release()


def find_adapter(folder: Path) -> Adapter | None:
    """Return the adapter that a folder holds, None if it holds something else.

    ModelError if its base is not on this machine, or if it is of a kind that is not merged here.
    """
    if not holds_adapter(folder):
        return None
    raw = read_json(folder / ADAPTER_FILE)
    fields = Fields(raw, str(folder / ADAPTER_FILE))
    kind = fields.text("peft_type", "")
    if kind.upper() != "LORA":
        raise ModelError(f"{folder} holds an adapter of the kind {kind or 'none'}, and LoRA alone is read: {MERGE}")
    if other := next((name for name in raw if raw[name] and name not in KNOWN), None):
        raise ModelError(f"the adapter in {folder} has the option {other}, which is not read: {MERGE}")
    if (begun := raw.get("init_lora_weights")) not in BEGINNINGS:
        raise ModelError(f"the adapter in {folder} began as {begun!r}, which changes its base, too: {MERGE}")
    return Adapter(folder, _base(folder, fields), fields)


def base_folder(folder: Path) -> Path:
    """Return the folder of an adapter's base, and any other folder itself."""
    adapter = find_adapter(folder)
    return adapter.base if adapter else folder


def _base(folder: Path, fields: Fields) -> Path:
    name, file = fields.text("base_model_name_or_path", ""), folder / ADAPTER_FILE
    how = f"write where it is into base_model_name_or_path of {file}"
    path = Path(os.path.expanduser(name))
    if path.is_absolute():  # a name is never looked for in the current folder, which may be anybody's
        if not os.path.exists(path):
            raise ModelError(f"the base of the adapter in {folder} is not at {name}: {how}")
        return path
    if not REPOSITORY_NAME.fullmatch(name):
        raise ModelError(f"the base of the adapter in {folder} is called {name!r}, not a folder: {how}")
    if found := cached_folder(name, fields.text("revision", "")):
        return found
    fetch = f"name {name} in the setting model once, which fetches it, or {how}"
    raise ModelError(f"the base of the adapter in {folder}, {name}, is not on this machine: {fetch}")
