"""The types of numbers that tensors of GGUF files have, as ggml numbers and lays them out."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from model_runtime.errors import ModelError
from model_runtime.machine import install_command


class Kind(NamedTuple):
    """A type: how many numbers a block has, in how many bytes, and which of these hold its fp16 scales."""

    name: str
    numbers: int
    size: int
    scales: slice = slice(0, 0)

    @property
    def is_plain(self) -> bool:
        """Whether numbers are stored as they are, without a scale."""
        return self.numbers == 1


# ggml.h, `enum ggml_type`, and ggml-common.h, the blocks. Others are refused by their names.
KINDS = {
    0: Kind("F32", 1, 4),
    1: Kind("F16", 1, 2),
    2: Kind("Q4_0", 32, 18, slice(0, 2)),
    3: Kind("Q4_1", 32, 20, slice(0, 4)),
    6: Kind("Q5_0", 32, 22, slice(0, 2)),
    7: Kind("Q5_1", 32, 24, slice(0, 4)),
    8: Kind("Q8_0", 32, 34, slice(0, 2)),
    10: Kind("Q2_K", 256, 84, slice(80, 84)),
    11: Kind("Q3_K", 256, 110, slice(108, 110)),
    12: Kind("Q4_K", 256, 144, slice(0, 4)),
    13: Kind("Q5_K", 256, 176, slice(0, 4)),
    14: Kind("Q6_K", 256, 210, slice(208, 210)),
    20: Kind("IQ4_NL", 32, 18, slice(0, 2)),
    23: Kind("IQ4_XS", 256, 136, slice(0, 2)),
    30: Kind("BF16", 1, 2),
}


def gguf_package() -> Any:
    """Return llama.cpp's package, which knows how each type is widened; ModelError if it is not installed."""
    if not find_spec("gguf"):
        how = install_command("gguf")
        raise ModelError(f"the Python package gguf is needed to read quantized GGUF files: run {how}")
    return import_module("gguf")


def kind_name(number: int) -> str:
    """Return the name of a type; types that are not read are known to the package alone."""
    if number in KINDS:
        return KINDS[number].name
    known = gguf_package().GGMLQuantizationType if find_spec("gguf") else ()
    return next((each.name for each in known if each == number), f"type {number}")
