"""Random models through the compiled decoder, watched for faults of memory; `make fuzz` looks for races, too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.compiled import DECODER_FLAGS, require, require_compiled

from .native_fuzz import SANITIZERS, TILES, build_fuzz, run_fuzz

SECONDS = 5


@pytest.mark.parametrize("options", [(), TILES], ids=["lanes", "tiles"])
def test_random_models_are_right_to_the_bit_and_touch_no_memory_of_others(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    require_compiled()
    try:
        program = build_fuzz(tmp_path, SANITIZERS["memory"], options=options)
    except (OSError, subprocess.CalledProcessError) as error:
        require(f"the fuzz cannot be compiled ({error})", DECODER_FLAGS)
        raise
    ran = run_fuzz(program, SECONDS)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "models" in ran.stdout
