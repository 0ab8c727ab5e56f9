"""Loads the compiled part. The structures mirror pass.h field by field."""

from __future__ import annotations

import ctypes
import logging
import platform
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, c_char_p, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

from model_runtime.c_sources import build_error, embedded_hash, load_library

PATH = Path(__file__).with_name("_native.so")
SETS = ("avx512", "avxvnni", "avx2", "neon")  # of instructions, the best first
# What a pass calls to bring experts of a layer into memory, see pass.h: with the layer's number, how many rows there
# are, the first slot of each expert and the rows' inputs; then with the number alone.
FETCH = CFUNCTYPE(c_int64, c_int64, c_int64, POINTER(c_int32), POINTER(c_float))
WAIT = CFUNCTYPE(None, c_int64)
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
        ("bits", c_int64),
    )


class StoredRows(Structure):
    """Rows of the head as a checkpoint stores them, or none."""

    _fields_ = (("rows", c_void_p), ("count", c_int64), ("width", c_int64), ("format", c_int64))


class NativeNorm(Structure):
    """Weights of a layer norm, or of an RMS norm if there is no bias; none of a norm that the model lacks."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class NativeLatent(Structure):
    """Attention over latents."""

    _fields_ = (
        ("first", NativeMatrix),
        ("query", NativeMatrix),
        ("query_norm", c_void_p),
        ("latent_norm", c_void_p),
        ("keys", POINTER(NativeMatrix)),
        ("values", POINTER(NativeMatrix)),
        *((name, c_int64) for name in ("rank", "plain", "rotated", "value", "query_rank")),
    )


class NativeExperts(Structure):
    """A feed-forward part of experts."""

    _fields_ = (
        *((name, c_void_p) for name in ("router", "bias", "correction", "shared_gate")),
        ("up", POINTER(NativeMatrix)),
        ("down", POINTER(NativeMatrix)),
        ("shared_up", NativeMatrix),
        ("shared_down", NativeMatrix),
        *((name, c_int64) for name in ("count", "chosen", "intermediate", "shared")),
        *((name, c_int64) for name in ("groups", "chosen_groups", "group_best")),
        *((name, c_int64) for name in ("is_sigmoid", "is_normalized", "is_gelu", "is_clamped", "number")),
        ("late", c_void_p),
        ("scale", c_float),
    )


class NativeState(Structure):
    """A layer's state; without heads it is a convolution alone."""

    _fields_ = (
        ("first", NativeMatrix),
        ("out", NativeMatrix),
        *((name, c_void_p) for name in ("conv", "conv_bias", "step_bias", "rates", "skip", "norm")),
        *((name, c_int64) for name in ("channels", "kernel", "heads", "groups", "key", "value", "normed")),
        *((name, c_int64) for name in ("inputs_at", "memory_at", "is_correcting", "is_gated_first")),
        ("least_step", c_float),
        ("most_step", c_float),
    )


class NativeLayer(Structure):
    """One block; `up` is gate and up if the model is gated, and a part that is missing has no outputs."""

    _fields_ = (
        ("norm_in", NativeNorm),
        ("norm_mlp", NativeNorm),
        ("after_attention", NativeNorm),
        ("after_mlp", NativeNorm),
        ("head_norms", c_void_p),
        ("head_gates", c_void_p),
        ("sinks", c_void_p),
        ("rope", c_void_p),
        ("latent", POINTER(NativeLatent)),
        ("experts", POINTER(NativeExperts)),
        ("state", POINTER(NativeState)),
        ("qkv", NativeMatrix),
        ("out", NativeMatrix),
        ("up", NativeMatrix),
        ("down", NativeMatrix),
        ("kind", c_int64),
        ("at", c_int64),
        ("window", c_int64),
        ("has_keys", c_int64),
        ("has_output_gates", c_int64),
        ("cap", c_float),
    )


class NativeModel(Structure):
    """A whole decoder; sizes in elements."""

    _fields_ = (
        ("layers", POINTER(NativeLayer)),
        ("norm", NativeNorm),
        ("head", NativeMatrix),
        ("stored_head", StoredRows),
        ("layer_count", c_int64),
        ("hidden", c_int64),
        ("padded", c_int64),
        ("heads", c_int64),
        ("kv_heads", c_int64),
        ("head_dim", c_int64),
        ("value_dim", c_int64),
        ("intermediate", c_int64),
        ("form", c_int64),
        ("is_gated", c_int64),
        ("is_gelu", c_int64),
        ("is_parallel", c_int64),
        *((name, c_int64) for name in ("leaves", "early_at", "early_count")),
        ("early_writes", c_void_p),
        ("early_norm", NativeNorm),
        ("early", NativeMatrix),
        ("epsilon", c_float),
        ("latent_epsilon", c_float),
        ("scale", c_float),
        ("fetch", FETCH),
        ("wait", WAIT),
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
    lib.efim_pack_groups.restype = c_int
    lib.efim_pack_groups.argtypes = (c_void_p, *[c_int64] * 4, *[c_void_p] * 2)
    lib.efim_pack_rows.restype = None
    lib.efim_pack_rows.argtypes = (c_void_p, *[c_int64] * 3, *[c_void_p] * 3)
    lib.efim_pass.restype = None
    lib.efim_pass.argtypes = (c_void_p, c_int64, c_int64, *[c_void_p] * 3, c_int64, *[c_void_p] * 2)
    return lib


def give_way() -> None:
    """Have passes of this thread wait, between their parts, while there are answers under way."""
    if not isinstance(lib := library(), str):
        lib.efim_give_way()


def wait_for_answers() -> None:
    """Wait, without the interpreter lock, until no answer is under way."""
    if not isinstance(lib := library(), str):
        lib.efim_wait_for_answers()


def count_answers(more: int) -> None:
    """Count more answers under way, or fewer; on any thread.

    Unlike a pass this keeps the interpreter lock, which a busy thread would not soon give back.
    """
    if not isinstance(lib := library(), str):
        PYFUNCTYPE(None, c_int)(("efim_count_answers", lib))(more)


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
