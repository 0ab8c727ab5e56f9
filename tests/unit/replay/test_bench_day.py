"""What `make bench` measures of a day at one daemon, in a short one.

How much it holds is no test's: that a client leaves nothing is told by test_gone_clients.py, and that an arena takes
memory for the tokens that it holds by test_native_memory.py.
"""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.keystrokes.day import Day, measure


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_windows_that_come_and_go_are_measured() -> None:
    found = measure(Day(repositories=1, files=3))
    assert json.loads(json.dumps(found)) == found
    assert found["keys"] == (3 + 1) * 6 and found["tokens_a_key"]["reused"] > found["tokens_a_key"]["recomputed"]
    assert len(found["mib"]) == 1 and min(found["mib"]) > 0
