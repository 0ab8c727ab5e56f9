"""The kernel of single rows itself, on the CPU: in a process of its own, which Triton's interpreter takes whole."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

HERE = Path(__file__).parents[3]
PINNED = "3.7.1"  # what torch 2.13 for CUDA brings; later versions have no block pointers, which the kernel needs
MUST_RUN = "CI" in os.environ


def lacking() -> str | None:
    try:
        found = version("triton")
    except PackageNotFoundError:
        found = "none"
    return None if found == PINNED else f"triton {PINNED} is needed and {found} is installed: run make test"


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="Triton is for x86-64 on Linux")
def test_the_split_kernel_computes_what_torch_does() -> None:
    """Groups of heads, starts and lengths in tensors, spare rows, up to the slab's end; and a decoder around it."""
    if reason := lacking():
        assert not MUST_RUN, reason
        pytest.skip(reason)
    environment = os.environ | {"TRITON_INTERPRET": "1", "XFORMERS_ENABLE_TRITON": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.engine.gpu.kernel_trials"]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a decoder: " in done.stdout
