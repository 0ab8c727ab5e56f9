"""What `make bench` measures in a large workspace, in a small one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.keystrokes.large_workspace import Size, make_workspace, measure


def test_it_has_as_many_lines_and_files_as_wanted_and_no_text_twice(tmp_path: Path) -> None:
    made = make_workspace(tmp_path, Size(lines=5_000, files=300))
    assert len(made) >= 300 and sum(made.values()) >= 5_000
    assert {path: path.read_bytes().count(b"\n") for path in tmp_path.rglob("*.py")} == made
    assert len({path.read_bytes() for path in made}) == len(made) and len({path.parent for path in made}) > 1


@pytest.mark.skipif(sys.platform != "linux", reason="CPU time and memory are read from /proc")
def test_a_small_one_is_measured() -> None:
    found = measure(Size(lines=500, files=20, keys=3, rounds=1, idle_seconds=0.1))
    assert json.loads(json.dumps(found)) == found
    assert 20 <= found["files_in_memory"] <= found["files"] and found["tokens_in_memory"] > 500
    waited = [
        name for name in found if name.endswith(("_ms", "wall_seconds", "first_answer_seconds", "save_seen_seconds"))
    ]
    assert all(found[name] > 0 for name in (*waited, "disk_mb")) and len(waited) == 7
