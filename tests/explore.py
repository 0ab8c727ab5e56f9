"""Runs the property tests with random seeds, and stops at the first that fails.

python -m tests.explore SECONDS    prints the seed and what to do with it, and ends with status 1, if a test fails

The time is looked at between tests: the last one ends, and what it finds is made small.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random, randrange
from time import monotonic

import pytest

from tests.source.imports import imports, within

ROOT = Path(__file__).parents[1]
OPTIONS = ("-x", "-m", "hypothesis", "-p", "no:cacheprovider", "--hypothesis-profile", "random")
FOUND = """
Found with seed {seed}. Write the falsifying example as an @example above its test, then mend the fault.
To see it again: .venv/bin/python -m pytest --hypothesis-profile random --hypothesis-seed {seed} TEST"""


class Until:
    """A plugin of pytest that ends its run after the test in which the time is over."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Let no other test begin once the time is over."""
        if self._is_over():
            item.session.shouldstop = "the time is over"


def property_tests(root: Path) -> list[str]:
    """Return the files of property tests below a root."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    return [str(path) for path in paths if any(within(name, "hypothesis") for name in imports(path, root))]


def explore(files: Sequence[str], is_over: Callable[[], bool]) -> int:
    """Run the property tests in `files` with one seed after another; return pytest's last status."""
    status = pytest.ExitCode.OK
    while status == pytest.ExitCode.OK and not is_over():
        seed = randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        mixed = Random(seed).sample(files, len(files))  # so that short runs come to all of them
        status = pytest.main([*OPTIONS, "--hypothesis-seed", str(seed), *mixed], plugins=[Until(is_over)])
        if status == pytest.ExitCode.TESTS_FAILED:
            print(FOUND.format(seed=seed))
        elif is_over():
            return pytest.ExitCode.OK
    return status


if __name__ == "__main__":
    end = monotonic() + float(sys.argv[1])
    sys.exit(explore(property_tests(ROOT), lambda: monotonic() > end))
