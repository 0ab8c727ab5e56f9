"""Reads a checkpoint's JSON, and typed fields of a `config.json`; a ModelError names a field of another type."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from model_runtime.errors import ModelError
from model_runtime.regular_files import MIB, read_regular

MOST_JSON = 16 * MIB  # bytes of a model's JSON: an index names each tensor
INFINITE = {"__float__": "Infinity"}  # how transformers 5 writes what JSON has no number for
LARGEST_SIZE = 1 << 24  # larger than any size of a model that could run here


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a checkpoint; ModelError if there is none."""
    try:
        raw = json.loads(read_regular(path, MOST_JSON).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{path} does not exist: name a folder that holds a model") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
    if not isinstance(raw, dict):
        raise ModelError(f"{path} is not a JSON object: fetch the model again")
    return cast("dict[str, Any]", raw)


class Fields:
    """The fields of a JSON object; null counts as missing."""

    def __init__(self, raw: dict[str, Any], file: str = "config.json") -> None:
        """Read fields of this object; messages name its file."""
        self._raw, self._file = raw, file

    def has(self, name: str, *, null: bool = True) -> bool:
        """Return whether a field is there; `null` says whether null counts."""
        return name in self._raw and (null or self._raw[name] is not None)

    def is_list(self, name: str) -> bool:
        """Return whether a field is a list."""
        return isinstance(self._raw.get(name), list)

    def is_text(self, name: str) -> bool:
        """Return whether a field is a string."""
        return isinstance(self._raw.get(name), str)

    def size(self, name: str, default: int | None = None) -> int:
        """Read a positive whole number."""
        value = self._given(name, default)
        if type(value) is not int or not 0 < value <= LARGEST_SIZE:
            raise ModelError(f"{self._file}: {name} is {value!r}, not a positive whole number: fetch the model again")
        return value

    def count(self, name: str, default: int) -> int:
        """Read a whole number of at least 0."""
        value = self.whole(name, default)
        if not 0 <= value <= LARGEST_SIZE:
            raise ModelError(
                f"{self._file}: {name} is {value!r}, not a whole number from 0 on: fetch the model again"
            )
        return value

    def whole(self, name: str, default: int) -> int:
        """Read a whole number of either sign."""
        value = self._given(name, default)
        if type(value) is not int:
            raise ModelError(f"{self._file}: {name} is {value!r}, not a whole number: fetch the model again")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Read a positive number."""
        value = self._given(name, default)
        if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
            raise ModelError(f"{self._file}: {name} is {value!r}, not a positive number: fetch the model again")
        return float(value)

    def numbers(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Read as many numbers as the default has, each at least 0 and perhaps infinite."""
        value: object = self._given(name, default)
        given = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
        numbers = [math.inf if each == INFINITE else each for each in given]
        if len(numbers) != len(default) or not all(type(each) in (int, float) and each >= 0 for each in numbers):  # pyright: ignore
            raise ModelError(f"{self._file}: {name} is {value!r}, not {len(default)} numbers: fetch the model again")
        return tuple(map(float, cast("list[float]", numbers)))

    def flag(self, name: str, default: bool = False) -> bool:
        """Read a boolean; a missing one is `default`."""
        return bool(self._given(name, default))

    def text(self, name: str, default: str | None = None) -> str:
        """Read a string."""
        value = self._given(name, default)
        if not isinstance(value, str):
            raise ModelError(f"{self._file}: {name} is {value!r}, not a string: fetch the model again")
        return value

    def ids(self, name: str) -> tuple[int, ...]:
        """Read token ids: none, one, or a list."""
        value = self._raw.get(name)
        ids = cast("list[object]", value if isinstance(value, list) else [] if value is None else [value])
        if not all(type(i) is int and 0 <= i <= LARGEST_SIZE for i in ids):
            raise ModelError(
                f"{self._file}: {name} is {value!r}, not a token or a list of tokens: fetch the model again"
            )
        return tuple(cast("list[int]", ids))

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of strings; a missing one is empty."""
        value = self._raw.get(name)
        texts = cast("list[object]", value if isinstance(value, list) else [])
        if value not in (None, texts) or not all(isinstance(each, str) and each for each in texts):
            raise ModelError(f"{self._file}: {name} is {value!r}, not a list of strings: fetch the model again")
        return tuple(cast("list[str]", texts))

    def object(self, name: str) -> dict[str, Any]:
        """Read an object; a missing one is empty."""
        value: object = self._raw.get(name) or {}
        if not isinstance(value, dict):
            raise ModelError(f"{self._file}: {name} is {value!r}, not an object: fetch the model again")
        return cast("dict[str, Any]", value)

    def _given(self, name: str, default: Any) -> Any:
        value = self._raw.get(name)
        return default if value is None else value


QUANTIZED = ("quantization_config", "quantization", "compression_config")
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
MOST_LAYERS = 4096  # no model has a tenth of it


def refuse_quantized(fields: Fields) -> None:
    """Raise ModelError if a checkpoint's weights are quantized; MLX names no method."""
    for name in QUANTIZED:
        if fields.has(name, null=False) and (how := fields.object(name)):
            method = how.get("quant_method", "MLX" if "group_size" in how else name)
            bits = f", {how['bits']} bits" if "bits" in how else ""
            raise ModelError(f"the checkpoint is quantized ({method}{bits}): use the unquantized model")


def refuse_too_deep(fields: Fields) -> None:
    """Raise ModelError if a configuration has more layers than any model, by whatever name."""
    for name in LAYERS:
        if fields.has(name, null=False) and (count := fields.size(name)) > MOST_LAYERS:
            raise ModelError(f"config.json: {name} is {count}, more than any model has: fetch the model again")
