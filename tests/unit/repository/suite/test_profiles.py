"""Property tests draw the same examples in every run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.explore import ROOT

# What conftest.py sets, then examples that Hypothesis would draw with constants of the modules that are imported.
DRAW = """\
import sys
import tests.conftest
from hypothesis import given, settings, strategies as st
from types import SimpleNamespace
tests.conftest.pytest_configure(SimpleNamespace(getoption=lambda name: None))

@given(st.text() | st.integers())
def draw(drawn):
    print(ascii(drawn))

print(settings.default)
draw()
"""


def drawn(before: str, **env: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-c", before + DRAW]
    return subprocess.run(
        command, cwd=ROOT, env=environment | env, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.splitlines()


def test_examples_are_the_same_wherever_and_whatever_is_imported() -> None:
    here = drawn("")
    assert len(here) > settings().max_examples  # each of them, and the profile
    assert drawn("import efim_ls.settings\n", CI="true") == here


@pytest.mark.parametrize("made", [settings(max_examples=7), RuleBasedStateMachine.TestCase.settings])
def test_settings_made_by_tests_keep_what_the_profile_says(made: settings) -> None:
    assert made.derandomize and made.print_blob
    assert made.deadline is None and made.database is None


def test_no_health_check_reads_a_clock() -> None:
    assert HealthCheck.too_slow in settings().suppress_health_check
