"""Loads the compiled part of a step between two passes. The structures mirror step.c field by field."""

from __future__ import annotations

import ctypes
import logging
from ctypes import c_double, c_int64, c_void_p
from functools import cache
from pathlib import Path

from model_runtime.c_sources import load_library

PATH = Path(__file__).with_name("_engine.so")

logger = logging.getLogger(__name__)


class NativeShares(ctypes.Structure):
    """The shares of counts in a mixture, by length of match."""

    _fields_ = (
        ("shares", c_void_p),
        ("memory_shares", c_void_p),
        ("shares_count", c_int64),
        ("memory_count", c_int64),
    )


class NativeFollowers(ctypes.Structure):
    """What followed matches in the repository."""

    _fields_ = (
        ("tokens", c_void_p),
        ("lengths", c_void_p),
        ("counts", c_void_p),
        ("size", c_int64),
        ("least", c_int64),
    )


class NativeBuffers(ctypes.Structure):
    """Where a step works and writes its results."""

    _fields_ = (
        ("recency", c_void_p),
        ("places", c_void_p),
        ("lengths", c_void_p),
        ("values", c_void_p),
        ("chances", c_void_p),
        ("likely", c_void_p),
        ("likely_chances", c_void_p),
        ("likely_model", c_void_p),
        ("gains", c_void_p),
        ("left", c_double),
        ("is_mixed", c_int64),
        ("token", c_int64),
        ("likely_count", c_int64),
    )


@cache
def library() -> ctypes.CDLL | str:
    """Load the compiled part, whose calls release the interpreter lock, or return why it cannot be used."""
    if isinstance(lib := load_library(PATH, "the engine's compiled part", "engine_sources"), str):
        logger.warning("Tokens are chosen in numpy, which is slower: %s", lib)
        return lib
    logger.info("Tokens are chosen by compiled code")
    mixed = (c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_int64)
    lib.engine_mix.restype = lib.engine_pick.restype = None
    lib.engine_mix.argtypes = (*mixed, c_void_p)
    lib.engine_pick.argtypes = (*mixed, c_void_p, c_int64, c_void_p)
    lib.engine_draft.restype = c_int64
    lib.engine_draft.argtypes = (c_void_p, c_int64, c_int64, c_int64, c_void_p)
    return lib
