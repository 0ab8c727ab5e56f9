"""Random models through the compiled decoder, watched for faults of memory; `make fuzz` looks for races, too."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from model_runtime.decoder.native.library import SETS, instruction_sets
from tests.compiled import DECODER_FLAGS, require, require_compiled
from tests.editors.fetching.part import Missing
from tests.editors.fetching.programs import ARM_COMPILER, ARM_CPU

from .native_fuzz import SANITIZERS, TILES, build_arm_fuzz, build_fuzz, run_fuzz

SECONDS = 5


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], Path]:
    """The fuzz built with some options, once for each."""
    require_compiled()

    @cache
    def program(options: tuple[str, ...]) -> Path:
        try:
            return build_fuzz(tmp_path_factory.mktemp("fuzz"), SANITIZERS["memory"], options=options)
        except (OSError, subprocess.CalledProcessError) as error:
            require(f"the fuzz cannot be compiled ({error})", DECODER_FLAGS)
            raise

    return program


@pytest.mark.parametrize("kind", [*SETS, "tiles"])
def test_random_models_are_right_to_the_bit_and_touch_no_memory_of_others(
    programs: Callable[[tuple[str, ...]], Path], kind: str
) -> None:
    instructions, options = ("avx512", TILES) if kind == "tiles" else (kind, ())
    if instructions not in instruction_sets():
        pytest.skip(f"this CPU has no {instructions}")
    ran = run_fuzz(programs(options), SECONDS, instructions)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "models" in ran.stdout


@pytest.mark.parametrize("seed", [0, 6], ids=["fp16", "int8"])  # of the models that the time is enough for
def test_random_models_are_right_to_the_bit_on_an_emulated_arm_cpu(tmp_path: Path, seed: int) -> None:
    try:
        emulator, compiler = ARM_CPU.program_path(), ARM_COMPILER.program_path()
    except Missing as reason:
        require(str(reason), DECODER_FLAGS)
        raise
    ran = run_fuzz(build_arm_fuzz(tmp_path, compiler), SECONDS, "neon", seed, (emulator,))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "models" in ran.stdout
