"""Programs of a model run under limits: each of these is a real process that tries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.humaneval import guard, sandbox

REFUSED = """
try:
    {attempt}
except PermissionError:
    pass
else:
    raise AssertionError("it was let through")
"""


def test_a_program_that_ends_has_passed() -> None:
    assert sandbox.passes("import re, math, hashlib, collections\nassert math.sqrt(4) == 2\nprint('é')\n")
    assert sandbox.passes("try:\n    input()\nexcept EOFError:\n    pass\n")


@pytest.mark.parametrize(
    "program",
    [
        "assert False",
        "def f(:",
        "raise SystemExit(0)",
        "import os\nos._exit(0)",
        "import os\nos.abort()",
        "def f(): return f()\nf()",
        "'\udcff'\nassert False",
    ],
)
def test_a_program_that_fails_or_leaves_has_not(program: str) -> None:
    assert not sandbox.passes(program)


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket; socket.socket()",
        "import socket; socket.getaddrinfo('localhost', 80)",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import os; os.fork()",
        "import os; os.system('true')",
        "import os; os.execv('/bin/true', ['true'])",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
        "import subprocess; subprocess.run(['true'])",
        "import pty; pty.spawn(['true'])",
        "import os; os.kill(os.getppid(), 0)",
        "import ctypes; ctypes.CDLL(None)",
        "import os; os.mkdir('folder')",
        "import os; os.remove('/none')",
        "import shutil; shutil.rmtree('.')",
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))",
    ],
)
def test_what_reaches_out_is_refused(attempt: str) -> None:
    assert sandbox.passes(REFUSED.format(attempt=attempt))


@pytest.mark.parametrize(
    "attempt",
    [
        "open({path!r}, 'w').close()",
        "open({path!r}, 'a').close()",
        "open({path!r}, 'r+').close()",
        "import os; os.close(os.open({path!r}, os.O_CREAT))",
        "import pathlib; pathlib.Path({path!r}).write_text('no')",
        "import os; os.rename({path!r}, {path!r} + '2')",
        "import os; os.truncate({path!r}, 0)",
    ],
)
def test_nothing_is_written(attempt: str, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("kept")
    assert sandbox.passes(REFUSED.format(attempt=attempt.format(path=str(path))))
    assert [each.read_text() for each in tmp_path.iterdir()] == ["kept"]
    assert sandbox.passes(f"assert open({str(path)!r}).read() == 'kept'")


def test_memory_has_a_limit() -> None:
    assert sandbox.passes(f"try:\n    bytearray({guard.BYTES})\nexcept MemoryError:\n    pass\nelse:\n    1 / 0\n")
    assert sandbox.passes("bytearray(1 << 24)")


def test_processor_time_files_and_children_have_limits() -> None:
    limits = {"CPU": guard.SECONDS, "FSIZE": 0, "CORE": 0, "NPROC": 0}
    lines = [f"assert resource.getrlimit(resource.RLIMIT_{name}) == ({n}, {n})" for name, n in limits.items()]
    assert sandbox.passes("\n".join(("import resource", *lines)))


@pytest.mark.parametrize("program", ["while True: pass", "import time\ntime.sleep(1e6)"])
def test_an_endless_program_is_ended(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PATIENCE", 0.5)
    assert not sandbox.passes(program)


def test_a_program_sees_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    assert sandbox.passes("import os\nassert 'SECRET' not in os.environ")
    assert sandbox.passes(f"import os\nassert os.getcwd() != {os.getcwd()!r} and not os.listdir()")
    for name in ("model_runtime", "errors"):  # from our root, from the guard's folder
        assert sandbox.passes(f"try:\n    import {name}\nexcept ImportError:\n    pass\nelse:\n    1 / 0\n")


def test_a_system_without_limits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.check()
    monkeypatch.setattr(sandbox, "find_spec", lambda _name: None)
    with pytest.raises(WorkError, match="leave out --humaneval"):
        sandbox.check()
