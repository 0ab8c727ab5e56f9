"""What `make bench` measures of a day at one daemon, in a short one; what it holds is bounded here."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.keystrokes.day import Day, measure

MOST_MIB = 215  # 187 are seen; arenas that take all of their memory at once make it 237


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_windows_that_come_and_go_leave_little() -> None:
    found = measure(Day(repositories=2, files=6))
    assert json.loads(json.dumps(found)) == found
    assert found["keys"] == 2 * (6 + 2) * 6 and found["tokens_a_key"]["reused"] > found["tokens_a_key"]["recomputed"]
    assert len(found["mib"]) == 2 and 50 < found["mib"][1] < MOST_MIB, found["mib"]
