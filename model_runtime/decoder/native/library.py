"""Loads the compiled part. The structures mirror pass.h field by field; their sizes are compared on loading."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_float, c_int, c_int64, c_void_p, sizeof
from functools import cache
from pathlib import Path


class NativeMatrix(Structure):
    """Weights of one product; `inputs` are padded to 64, `outputs` to 16."""

    _fields_ = (
        ("weights", c_void_p),
        ("scales", c_void_p),
        ("sums", c_void_p),
        ("bias", c_void_p),
        ("outputs", c_int64),
        ("inputs", c_int64),
    )


class NativeNorm(Structure):
    """Weights of a layer norm, or of an RMS norm if there is no bias."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class NativeLayer(Structure):
    """One block; `up` is gate and up if the model is gated."""

    _fields_ = (
        ("norm_in", NativeNorm),
        ("norm_mlp", NativeNorm),
        ("head_norms", c_void_p),
        ("qkv", NativeMatrix),
        ("out", NativeMatrix),
        ("up", NativeMatrix),
        ("down", NativeMatrix),
    )


class NativeModel(Structure):
    """A whole decoder; sizes in elements."""

    _fields_ = (
        ("layers", POINTER(NativeLayer)),
        ("norm", NativeNorm),
        ("rope", c_void_p),
        ("head", NativeMatrix),
        ("layer_count", c_int64),
        ("hidden", c_int64),
        ("padded", c_int64),
        ("heads", c_int64),
        ("kv_heads", c_int64),
        ("head_dim", c_int64),
        ("intermediate", c_int64),
        ("longest", c_int64),
        ("is_int8", c_int64),
        ("is_gated", c_int64),
        ("is_gelu", c_int64),
        ("epsilon", c_float),
    )


def library_path() -> Path | None:
    """Return the file of the compiled part, or None if it was not built."""
    path = Path(__file__).with_name("_native.so")
    return path if path.is_file() else None


@cache
def library() -> ctypes.CDLL | None:
    """Load the compiled part; None if it was not built, or not from these sources.

    Its calls release the interpreter lock.
    """
    path = library_path()
    try:
        lib = ctypes.CDLL(str(path)) if path else None
        if lib is None or lib.efim_layout() != sizeof(NativeModel) << 16 | sizeof(NativeLayer):
            return None
    except (OSError, AttributeError):
        return None
    lib.efim_supported.restype = c_int
    lib.efim_open.restype = c_void_p
    lib.efim_open.argtypes = (POINTER(NativeModel), c_int)
    lib.efim_close.restype = None
    lib.efim_close.argtypes = (c_void_p,)
    lib.efim_pass.restype = None
    lib.efim_pass.argtypes = (c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p)
    return lib
