"""Looking for counterexamples with random seeds: which tests run, until when, and what is told of a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.explore import ROOT, property_tests

CONFTEST = """\
from hypothesis import settings

settings.register_profile("random", derandomize=False, database=None)
"""
PROPERTY = """\
from hypothesis import given, strategies as st

@given(st.integers())
def test_of_numbers(number):
    assert {condition}

def test_without_a_property():
    assert False
"""
# Asks whether the time is over before each seed, after each test and after each run.
EXPLORE = """\
import sys
from tests.explore import explore
answers = iter([False] * int(sys.argv[1]))
sys.exit(explore(sys.argv[2:], lambda: next(answers, True)))
"""


def explored(folder: Path, condition: str, looks: int) -> tuple[int, list[str]]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_numbers.py").write_text(PROPERTY.format(condition=condition))
    command = [sys.executable, "-c", EXPLORE, str(looks), str(folder / "test_numbers.py")]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return ran.returncode, ran.stdout.splitlines()


def seeds(lines: list[str]) -> list[str]:
    return [line.removeprefix("seed ") for line in lines if line.startswith("seed ")]


def test_seeds_are_tried_until_the_time_is_over(tmp_path: Path) -> None:
    status, lines = explored(tmp_path, "number == number", looks=4)
    assert status == 0
    assert len(set(seeds(lines))) == 2
    assert not any("test_without_a_property" in line for line in lines)


def test_a_failure_ends_it_and_its_seed_is_told(tmp_path: Path) -> None:
    status, lines = explored(tmp_path, "number < 1000", looks=99)
    assert status == pytest.ExitCode.TESTS_FAILED
    [seed] = seeds(lines)
    assert any("number=1000" in line for line in lines)
    assert any(line.startswith(f"Found with seed {seed}.") for line in lines)


def test_a_failure_in_the_last_moment_is_told(tmp_path: Path) -> None:
    status, lines = explored(tmp_path, "number < 1000", looks=1)
    assert status == pytest.ExitCode.TESTS_FAILED


def test_files_that_cannot_be_read_end_it(tmp_path: Path) -> None:
    status, lines = explored(tmp_path, ") (", looks=99)
    assert status == pytest.ExitCode.INTERRUPTED and len(seeds(lines)) == 1


def test_the_property_tests_of_the_suite_are_found() -> None:
    found = property_tests(ROOT)
    assert str(ROOT / "tests/engine/completion/test_warm_equals_cold.py") in found
    assert __file__ not in found
