"""Random models through the compiled decoder, watched for faults of memory; `make fuzz` looks for races, too."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from model_runtime.decoder.native.library import SETS, instruction_sets
from tests.compiled import DECODER_FLAGS, require, require_compiled
from tests.editors.fetching.part import Missing, Part
from tests.editors.fetching.programs import ARM_COMPILER, ARM_CPU, OLD_CPU

from .native_fuzz import SANITIZERS, FuzzBuild, build_emulated_fuzz, run_fuzz

MODELS = 6
# Seeds of models in a row that are quickly emulated: of them all, some are in each format of weights.
EMULATED, SMALL = (range(6, 12), range(13, 16), range(17, 20)), 10
INT8 = 3  # of the models, the first with int8 weights, as further ones have them: tiles multiply nothing else
# On several cores threads spend most of their time waiting for each other; `make fuzz` looks for races there.
ONE_CORE = ("taskset", "--cpu-list", str(max(os.sched_getaffinity(0)))) if shutil.which("taskset") else ()
LACKING = 77  # the status of the fuzz on a CPU without the instructions


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> FuzzBuild:
    """What the programs of the fuzz share, compiled once."""
    require_compiled()
    try:
        return FuzzBuild(tmp_path_factory.mktemp("fuzz"), SANITIZERS["memory"])
    except (OSError, subprocess.CalledProcessError) as error:
        require(f"the fuzz cannot be compiled ({error})", DECODER_FLAGS)
        raise


@pytest.mark.parametrize("kind", [*SETS, "tiles"])
def test_random_models_are_right_to_the_bit_and_touch_no_memory_of_others(build: FuzzBuild, kind: str) -> None:
    instructions = "avx512" if kind == "tiles" else kind
    if instructions not in instruction_sets():
        pytest.skip(f"this CPU has no {instructions}")
    first = INT8 if kind == "tiles" else 0
    ran = run_fuzz(build.program(tiles=kind == "tiles"), MODELS - first, instructions, first, ONE_CORE)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "models" in ran.stdout


def fetched(part: Part) -> Path:
    """The program of a part; skip the test without it, or fail it in CI."""
    try:
        return part.program_path()
    except Missing as reason:
        require(str(reason), DECODER_FLAGS)
        raise


@pytest.fixture(scope="module")
def arm_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fuzz for ARM."""
    return build_emulated_fuzz(tmp_path_factory.mktemp("arm"), fetched(ARM_COMPILER), "neon")


@pytest.mark.parametrize("seeds", EMULATED, ids=str)
def test_random_models_are_right_to_the_bit_on_an_emulated_arm_cpu(arm_program: Path, seeds: range) -> None:
    ran = run_fuzz(arm_program, len(seeds), "neon", seeds.start, (*ONE_CORE, fetched(ARM_CPU)))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "models" in ran.stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these CPUs are for x86-64")
def test_a_cpu_runs_the_instructions_that_it_has(tmp_path: Path) -> None:
    emulator, program = fetched(OLD_CPU), build_emulated_fuzz(tmp_path, "gcc", "avx2")

    def status(cpu: str, instructions: str) -> int:
        return run_fuzz(program, 1, instructions, SMALL, emulator=(*ONE_CORE, emulator, "-cpu", cpu)).returncode

    assert status("Haswell", "avx2") == 0
    assert [status("Haswell", each) for each in ("avxvnni", "avx512")] == [LACKING, LACKING]
    assert status("Nehalem", "avx2") == LACKING
