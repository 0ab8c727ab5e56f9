"""Loads the compiled look-ups of counts. The structures mirror counts.c field by field."""

from __future__ import annotations

import ctypes
import logging
from ctypes import c_int64, c_void_p
from functools import cache
from pathlib import Path

from model_runtime.c_sources import load_library

PATH = Path(__file__).with_name("_counts.so")

logger = logging.getLogger(__name__)


class NativePart(ctypes.Structure):
    """A segment that counts, or is taken off the counts of others."""

    _fields_ = (
        ("raw", c_void_p),
        ("packed", c_void_p),
        ("hidden", c_void_p),
        ("size", c_int64),
        ("width", c_int64),
        ("sign", c_int64),
        ("hidden_count", c_int64),
    )


class NativeAnswer(ctypes.Structure):
    """Where a look-up writes what followed."""

    _fields_ = (
        ("tokens", c_void_p),
        ("lengths", c_void_p),
        ("counts", c_void_p),
        ("entries", c_void_p),
        ("capacity", c_int64),
        ("least", c_int64),
    )


@cache
def library() -> ctypes.CDLL | str:
    """Load the compiled part, whose calls release the interpreter lock, or return why it cannot be used."""
    if isinstance(lib := load_library(PATH, "the compiled part of the counts", "counts_sources"), str):
        logger.warning("The repository is counted in numpy, which is slower: %s", lib)
        return lib
    logger.info("The repository is counted by compiled code")
    look_up = (c_void_p, c_int64, c_void_p, c_int64, c_int64, c_void_p)
    lib.counts_order.restype = lib.counts_count.restype = lib.counts_draft.restype = c_int64
    lib.counts_order.argtypes = (c_void_p, c_int64, c_int64, c_int64, c_void_p)
    lib.counts_count.argtypes = (*look_up, c_void_p)
    lib.counts_draft.argtypes = (*look_up, c_int64, c_int64, c_void_p, c_int64)
    return lib
