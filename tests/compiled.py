"""What tests do without a compiled part: they skip, but fail where CI is set and it can be compiled."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.native.decoder import native_missing

CPU = Path("/proc/cpuinfo")
DECODER_FLAGS = {"avx2", "fma", "f16c"}  # as Linux names them


def must_compile(flags: set[str]) -> bool:
    """Whether tests must find the parts that are compiled for a CPU with these flags."""
    named = CPU.read_text().split() if CPU.exists() else []
    return bool(os.environ.get("CI")) and shutil.which("gcc") is not None and flags <= set(named)


def require(reason: str | None, flags: set[str]) -> None:
    """Skip a test without its compiled part, or fail it if the part must be there."""
    if reason:
        (pytest.fail if must_compile(flags) else pytest.skip)(reason)


def require_compiled() -> None:
    """Skip or fail a test of the compiled decoder."""
    require(native_missing(read_config(EMBEDDED)), DECODER_FLAGS)
