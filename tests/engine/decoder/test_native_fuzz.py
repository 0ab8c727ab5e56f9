"""Random models through the compiled decoder, watched for faults of memory; `make fuzz` looks for races, too."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from model_runtime.decoder.native.library import SETS, instruction_sets
from tests.compiled import DECODER_FLAGS, require, require_compiled
from tests.editors.fetching.part import Missing, Part
from tests.editors.fetching.programs import ARM_COMPILER, ARM_CPU, OLD_CPU

from .native_fuzz import SANITIZERS, TILES, build_emulated_fuzz, build_fuzz, run_fuzz

SECONDS = 5
LACKING = 77  # the status of the fuzz on a CPU without the instructions


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


def fetched(part: Part) -> Path:
    """The program of a part; skip the test without it, or fail it in CI."""
    try:
        return part.program_path()
    except Missing as reason:
        require(str(reason), DECODER_FLAGS)
        raise


@pytest.mark.parametrize("seed", [0, 6], ids=["fp16", "int8"])  # of the models that the time is enough for
def test_random_models_are_right_to_the_bit_on_an_emulated_arm_cpu(tmp_path: Path, seed: int) -> None:
    emulator, compiler = fetched(ARM_CPU), fetched(ARM_COMPILER)
    ran = run_fuzz(build_emulated_fuzz(tmp_path, compiler), SECONDS, "neon", seed, (emulator,))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "models" in ran.stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these CPUs are for x86-64")
def test_a_cpu_runs_the_instructions_that_it_has(tmp_path: Path) -> None:
    emulator, program = fetched(OLD_CPU), build_emulated_fuzz(tmp_path, "gcc")

    def status(cpu: str, instructions: str) -> int:
        return run_fuzz(program, 1, instructions, emulator=(emulator, "-cpu", cpu)).returncode

    assert status("Haswell", "avx2") == 0
    assert [status("Haswell", each) for each in ("avxvnni", "avx512")] == [LACKING, LACKING]
    assert status("Nehalem", "avx2") == LACKING
