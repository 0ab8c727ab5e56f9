"""Loads the compiled kernels of training; each `train_` function is described where it is written, in C."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_double, c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

from torch import Tensor

from model_runtime.c_sources import embedded_hash, sources_hash, why_missing

BUILD = "run python setup.py kernels in the clone"
_SIGNATURES = {
    "train_add_norm": (*[c_int64] * 2, *[c_void_p] * 3, c_float, *[c_void_p] * 3),
    "train_norm_back": (*[c_int64] * 2, *[c_void_p] * 7),
    "train_place": (*[c_void_p] * 4,),
    "train_place_back": (*[c_void_p] * 7,),
    "train_open": (*[c_int64] * 3, *[c_void_p] * 4),
    "train_open_back": (*[c_int64] * 3, *[c_void_p] * 6),
    "train_open_inputs_back": (*[c_int64] * 3, *[c_void_p] * 3),
    "train_gate": (*[c_int64] * 2, *[c_void_p] * 2),
    "train_gate_back": (*[c_int64] * 2, *[c_void_p] * 2),
    "train_cross_entropy": (*[c_int64] * 2, c_void_p, c_float, c_void_p),
    "train_embed": (*[c_int64] * 2, *[c_void_p] * 3),
    "train_embed_back": (*[c_int64] * 2, *[c_void_p] * 3),
    "train_multiply": (*[c_int64] * 3, *[c_void_p] * 3),
    "train_multiply_int8": (*[c_int64] * 3, *[c_void_p] * 6),
    "train_multiply_tokens": (*[c_int64] * 3, *[c_void_p] * 3),
    "train_pair_tokens": (*[c_int64] * 2, *[c_void_p] * 2),
    "train_left_tokens": (*[c_int64] * 2, *[c_void_p] * 2),
    "train_pack_rows": (*[c_int64] * 2, *[c_void_p] * 2),
    "train_quantize": (*[c_int64] * 2, *[c_void_p] * 3),
    "train_pack_columns": (*[c_int64] * 2, *[c_void_p] * 2),
    "train_pack_rows_int8": (*[c_int64] * 2, *[c_void_p] * 4),
    "train_pack_columns_int8": (*[c_int64] * 2, *[c_void_p] * 4),
    "train_muon": (*[c_int64] * 2, *[c_float] * 3, *[c_void_p] * 4),
    "train_attend": (*[c_int64] * 4, *[c_void_p] * 5),
    "train_attend_back": (*[c_int64] * 4, *[c_void_p] * 7),
}


class Heads(Structure):
    """How rows of queries, keys and values become those that attention reads; mirrored in elements.c."""

    _fields_ = (
        ("rows", c_int64),
        ("heads", c_int64),
        ("kv_heads", c_int64),
        ("length", c_int64),
        ("table_stride", c_int64),
        ("turns", c_void_p),
        ("ids", c_void_p),
        ("q_weight", c_void_p),
        ("k_weight", c_void_p),
        ("table", c_void_p),
        ("epsilon", c_float),
    )


class KernelLibrary(ctypes.CDLL):
    """The kernels; their calls release the interpreter lock."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        for name, arguments in _SIGNATURES.items():
            function = getattr(self, name)
            function.argtypes, function.restype = arguments, None
        self.train_cross_entropy.restype = c_double
        self.train_attention_scratch.argtypes, self.train_attention_scratch.restype = (c_int64,), c_int64
        self.train_muon_scratch.argtypes, self.train_muon_scratch.restype = (c_int64,) * 2, c_int64
        self.tiles_usable.argtypes, self.tiles_usable.restype = (), c_int
        self.train_allow_tiles.argtypes, self.train_allow_tiles.restype = (c_int,), None
        self.train_supported.argtypes, self.train_supported.restype = (), c_int


def library_path() -> Path:
    """Return the file of the compiled kernels, which may be missing."""
    return Path(__file__).with_name("_kernels.so")


@cache
def library() -> KernelLibrary:
    """Load the kernels; raise OSError or AttributeError if they were not compiled, or from other sources."""
    lib, wanted = KernelLibrary(library_path()), sources_hash(library_path().parent)
    if wanted not in ("", embedded_hash(lib, "train_sources")):
        raise OSError("their sources have changed")
    return lib


def why_unsupported() -> str | None:
    """Return why the kernels cannot run here, or None if they can."""
    try:
        supported = library().train_supported()
    except (OSError, AttributeError):
        return why_missing(library_path(), "the library of training kernels", BUILD)
    return None if supported else "this CPU has no AVX-512 with bf16 and VNNI"


def addresses(*tensors: Tensor) -> tuple[int, ...]:
    """Return where the tensors' elements lie, as the kernels take them."""
    return tuple(tensor.data_ptr() for tensor in tensors)
