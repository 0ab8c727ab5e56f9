"""Loads the compiled part. The structures mirror pass.h field by field."""

from __future__ import annotations

import ctypes
import logging
import platform
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

from model_runtime.c_sources import build_error, embedded_hash, load_library

PATH = Path(__file__).with_name("_native.so")
SETS = ("avx512", "avxvnni", "avx2", "neon")  # of instructions, the best first
MACHINES = ("x86_64", "amd64", "aarch64", "arm64")  # as systems name them, in small letters

logger = logging.getLogger(__name__)


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
        ("head_gates", c_void_p),
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
        ("is_int8", c_int64),
        ("is_gated", c_int64),
        ("is_gelu", c_int64),
        ("epsilon", c_float),
    )


@cache
def library() -> ctypes.CDLL | str:
    """Load the compiled part, whose calls release the interpreter lock, or return why it cannot be used."""
    if platform.machine().lower() not in MACHINES:
        return "it is for x86-64 and ARM CPUs of 64 bits"
    if log := build_error(PATH):
        logger.warning("the compiled part could not be compiled:\n%s", log)
    if isinstance(lib := load_library(PATH, "the compiled part", "efim_sources"), str):
        return lib
    lib.efim_supported.restype = c_int
    lib.efim_supported.argtypes = (c_char_p,)
    lib.efim_open.restype = c_void_p
    lib.efim_open.argtypes = (POINTER(NativeModel), c_int, c_char_p)
    lib.efim_close.restype = None
    lib.efim_close.argtypes = (c_void_p,)
    lib.efim_pass.restype = None
    lib.efim_pass.argtypes = (c_void_p, c_int64, c_int64, *[c_void_p] * 3, c_int64, *[c_void_p] * 2)
    return lib


def instruction_sets() -> list[str]:
    """Return the sets of instructions that the compiled part can use on this CPU, the best first."""
    lib = library()
    return [] if isinstance(lib, str) else [each for each in SETS if lib.efim_supported(each.encode())]


def library_hash() -> str:
    """Return the hash of the sources that the compiled part was built from, and its set of instructions here.

    Bits differ between the sets. Empty without the compiled part.
    """
    lib = library()
    return "" if isinstance(lib, str) else " ".join((embedded_hash(lib, "efim_sources"), *instruction_sets()[:1]))
