"""Hashing weights beside other work."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from model_runtime.arena.kv_format import start_hashing
from model_runtime.errors import ModelError

HANG = 100  # seconds


def test_files_are_hashed_in_their_order(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    hashed = start_hashing([tmp_path / "b", tmp_path / "a"]).result(HANG)
    assert hashed == [hashlib.sha256(content).digest() for content in (b"b", b"a")]


def test_a_file_that_cannot_be_read_is_an_error_for_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="fetch the model again"):
        start_hashing([tmp_path / "none"]).result(HANG)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_process_ends_without_waiting_for_hashes(tmp_path: Path) -> None:
    os.mkfifo(endless := tmp_path / "endless")
    imports = "from pathlib import Path; from model_runtime.arena.kv_format import start_hashing"
    code = f"{imports}; start_hashing([Path({str(endless)!r})])"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)
