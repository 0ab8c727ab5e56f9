"""Builds the fuzz of the compiled decoder under sanitizers and runs it: `make fuzz SECONDS=300`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from model_runtime.decoder.native.library import instruction_sets

ROOT = Path(__file__).parents[3]
NATIVE = ROOT / "model_runtime" / "decoder" / "native"
FUZZ = Path(__file__).with_suffix(".c")
FLAGS = ("-O1", "-g", "-ffp-contract=off", "-fno-math-errno", "-pthread", "-fno-omit-frame-pointer")
SANITIZERS = {"memory": "address,undefined", "threads": "thread"}
TILES = ("-include", str(FUZZ.with_name("emulated_tiles.h")))  # few CPUs have them


def build_fuzz(folder: Path, sanitizers: str, native: Path = NATIVE, options: tuple[str, ...] = ()) -> Path:
    """Compile the decoder and its fuzz with gcc's sanitizers of these names; return the program."""
    stop = ("-fno-sanitize-recover=all",) if "undefined" in sanitizers else ()
    watched = (*FLAGS, f"-fsanitize={sanitizers}", *stop)
    # The reference is not watched: it would take most of the time.
    subprocess.run(["gcc", "-O2", "-g", f"-I{native}", "-c", FUZZ, "-o", folder / "fuzz.o"], check=True)
    sources = sorted(native.glob("*.c"))
    command = ["gcc", *watched, *options, f"-I{native}", *sources, folder / "fuzz.o", "-lm", "-o", folder / "fuzz"]
    subprocess.run(command, check=True)
    return folder / "fuzz"


def build_emulated_fuzz(folder: Path, compiler: Path | str) -> Path:
    """Compile the decoder and its fuzz for an emulator, in which sanitizers do not run."""
    sources = [*sorted(NATIVE.glob("*.c")), FUZZ]
    options = (*FLAGS, "-O2", "-static", f"-I{NATIVE}")
    subprocess.run([compiler, *options, *sources, "-lm", "-o", folder / "fuzz"], check=True)
    return folder / "fuzz"


def run_fuzz(
    program: Path, seconds: float, instructions: str, seed: int = 0, emulator: tuple[Path | str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run it with these instructions; the standard error says what was found, with the seed that finds it again."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"}
    command = [*emulator, program, str(seconds), str(seed), instructions]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def main() -> int:
    """Look for faults of memory, then for races, with all instructions and with tiles, for an equal time each."""
    seconds, seed, worst = float(sys.argv[1]), int(time.time()), 0
    kinds = [(each, ()) for each in instruction_sets()] + [("avx512", TILES)] * ("avx512" in instruction_sets())
    for what, sanitizers in SANITIZERS.items():
        for instructions, options in kinds:
            with tempfile.TemporaryDirectory() as folder:
                program = build_fuzz(Path(folder), sanitizers, options=options)
                ran = run_fuzz(program, seconds / (len(kinds) * len(SANITIZERS)), instructions, seed)
            print(f"{what}, {instructions}: {ran.stdout}{ran.stderr}", end="")
            worst = max(worst, abs(ran.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main())
