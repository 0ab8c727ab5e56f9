"""Builds the fuzz of the compiled decoder under sanitizers and runs it: `make fuzz SECONDS=300`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from model_runtime.decoder.native.library import SETS, instruction_sets

ROOT = Path(__file__).parents[3]
NATIVE = ROOT / "model_runtime" / "decoder" / "native"
FUZZ = Path(__file__).with_suffix(".c")
UNUSED = "-O0"  # for instructions that do not run: nothing of their code is looked at
FLAGS = ("-Og", "-g1", "-ffp-contract=off", "-fno-math-errno", "-pthread", "-fno-omit-frame-pointer")
SANITIZERS = {"memory": "address,undefined", "threads": "thread"}
TILES = ("-include", str(FUZZ.with_name("emulated_tiles.h")))  # few CPUs have them
WITH_TILES = "tiles.c"  # the only source with their instructions
BATCH = 10  # models that `make fuzz` tries before it looks at the time


class FuzzBuild:
    """The decoder and its fuzz compiled with gcc's sanitizers of these names: programs share what they can."""

    def __init__(self, folder: Path, sanitizers: str, native: Path = NATIVE) -> None:
        """Compile into a folder all that is the same in every program."""
        stop = ("-fno-sanitize-recover=all",) if "undefined" in sanitizers else ()
        self._folder, self._native = folder, native
        self._watched = (*FLAGS, f"-fsanitize={sanitizers}", *stop)
        # The reference is not watched: it would take most of the time.
        subprocess.run(["gcc", "-O2", "-g", f"-I{native}", "-c", FUZZ, "-o", folder / "fuzz.o"], check=True)
        same = [self._compiled(source) for source in sorted(native.glob("*.c")) if source.name != WITH_TILES]
        self._objects = [folder / "fuzz.o", *same]

    def program(self, tiles: bool = False) -> Path:
        """Return the program, in which tiles are emulated if asked for."""
        program = self._folder / ("tiles" if tiles else "fuzz")
        own = self._compiled(self._native / WITH_TILES, program.name, TILES if tiles else ())
        subprocess.run(["gcc", *self._watched, own, *self._objects, "-lm", "-o", program], check=True)
        return program

    def _compiled(self, source: Path, name: str = "", options: tuple[str, ...] = ()) -> Path:
        made = self._folder / f"{source.stem}{name}.o"
        is_unused = source.stem in SETS and source.stem not in instruction_sets()
        how = (UNUSED,) if is_unused else (*self._watched, *options)
        subprocess.run(["gcc", *how, f"-I{self._native}", "-c", source, "-o", made], check=True)
        return made


def build_emulated_fuzz(folder: Path, compiler: Path | str, instructions: str) -> Path:
    """Compile the decoder and its fuzz for an emulator with these instructions, in which sanitizers do not run."""
    program, objects = folder / "fuzz", list[Path]()
    for source in (*sorted(NATIVE.glob("*.c")), FUZZ):
        objects.append(folder / f"{source.stem}.o")
        level = (UNUSED,) if source.stem in SETS and source.stem != instructions else ()
        subprocess.run([compiler, *FLAGS, *level, f"-I{NATIVE}", "-c", source, "-o", objects[-1]], check=True)
    subprocess.run([compiler, "-static", "-pthread", *objects, "-lm", "-o", program], check=True)
    return program


def run_fuzz(
    program: Path, models: int, instructions: str, seed: int = 0, emulator: tuple[Path | str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run it on some models with these instructions.

    The standard error says what was found, with the seed that finds it again; those of the models follow `seed`.
    """
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"}
    command = [*emulator, program, str(models), str(seed), instructions]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def main(seconds: float, seed: int, now: Callable[[], float]) -> int:
    """Look for faults of memory, then for races, with all instructions and with tiles, for an equal time each."""
    worst = 0
    kinds = [(each, False) for each in instruction_sets()] + [("avx512", True)] * ("avx512" in instruction_sets())
    for what, sanitizers in SANITIZERS.items():
        with tempfile.TemporaryDirectory() as folder:
            build = FuzzBuild(Path(folder), sanitizers)
            for instructions, tiles in kinds:
                program, end = build.program(tiles), now() + seconds / (len(kinds) * len(SANITIZERS))
                status = 0
                while not status and now() < end:
                    ran = run_fuzz(program, BATCH, instructions, seed)
                    seed, status = seed + BATCH, ran.returncode
                    print(f"{what}, {instructions}: {ran.stdout}{ran.stderr}", end="")
                worst = max(worst, abs(status))
    return worst


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(time.time()), time.monotonic))
