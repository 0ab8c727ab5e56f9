"""The result of no test depends on time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source.timing import PROFILE, ROOT, WAITING, findings, found_in

SLEEPS = "sleeps by waiting for what nobody tells"
LIMIT = "waits with a limit of its own"
SETS = "sets what conftest.py sets for all"
AGAIN = "runs again what has failed"


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("import time\ntime.sleep(1)", "sleeps by time.sleep"),
        ("from time import sleep as rest\nrest(1)", "sleeps by time.sleep"),
        ("import asyncio\nasync def go_on():\n    await asyncio.sleep(0)", "sleeps by asyncio.sleep"),
        ("import threading\nthreading.Event().wait(PAUSE)", SLEEPS),
        ("import time\nassert time.monotonic() < end", "reads the clock time.monotonic"),
        ("from time import perf_counter\nbegan = perf_counter()", "reads the clock time.perf_counter"),
        ("import time\nclock = time.time", "reads the clock time.time"),
        ("import threading\nassert threading.active_count() == 1", "looks at all threads by threading.active_count"),
        ("from threading import enumerate as all\nlen(all())", "looks at all threads by threading.enumerate"),
        ("thread.join(10)", LIMIT),
        ("client.wait(0.05)", LIMIT),
        ("asyncio.wait_for(answer, 5)", LIMIT),
        ("process.communicate(timeout=60)", LIMIT),
        ("@settings(max_examples=3, deadline=None)\ndef test_it(): ...", SETS),
        ("unhurried = settings(suppress_health_check=[])", SETS),
        ("@pytest.mark.flaky\ndef test_it(): ...", AGAIN),
        ("@retry(3)\ndef test_it(): ...", AGAIN),
        ("pytestmark = pytest.mark.again(reruns=3)", AGAIN),
    ],
)
def test_what_depends_on_time_is_found(text: str, done: str) -> None:
    assert {what for _, what in found_in(text)} == {done}


@pytest.mark.parametrize(
    "text",
    [
        "from tests.waiting import HANG\nthread.join(HANG)",
        "assert not thread.join(0)",
        "monkeypatch.setattr(module, 'monotonic', clock)",
        "', '.join(names)",
        "retry_after = 3",
        "import time\nif __name__ == '__main__':\n    print(time.time())",
    ],
)
def test_what_does_not_is_let_be(text: str) -> None:
    assert [*found_in(text)] == []


def test_findings_have_file_and_line_and_one_place_waits(tmp_path: Path) -> None:
    for name in (WAITING, PROFILE, "tests/unit/test_it.py", "tests/unit/__main__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import time\n\ntime.sleep(1)\nsettings.register_profile('x', deadline=None)\n")
    assert findings(tmp_path) == [
        f"{PROFILE}:3: sleeps by time.sleep",
        "tests/unit/test_it.py:3: sleeps by time.sleep",
        f"tests/unit/test_it.py:4: {SETS}",
    ]


def test_no_test_depends_on_time() -> None:
    assert findings(ROOT) == []
