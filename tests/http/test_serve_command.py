"""The command line of `efim-ls serve --http`: what it refuses, and what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.server import STAND_IN, serving
from tests.lsp.wire import ENV
from tests.processes import forks
from tests.waiting import HANG

# Runs the command line where a package cannot be imported.
WITHOUT = "import sys; sys.modules[{!r}] = None; from efim_ls.cli import main; sys.exit(main({!r}))"


def ended(*words: str, code: str = "") -> tuple[int, str]:
    if code:  # for a Python that has imported nothing
        command = [sys.executable, "-c", code]
        told = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=HANG)
    else:
        told = forks.run(["-m", "efim_ls", "serve", *words], ENV)
    return told.returncode, told.stderr


@pytest.mark.parametrize("words", [("--host", "::1"), ("--model", "x"), ("--tcp", "0", "--model", "x")])
def test_what_is_for_http_needs_it(words: tuple[str, ...]) -> None:
    assert ended(*words) == (2, "efim-ls: --host and --model are for --http: add it, or leave them out\n")


@pytest.mark.parametrize("words", [("--http", "65536"), ("--http", "x"), ("--http", "1", "--tcp", "1")])
def test_a_wrong_port_is_a_mistake(words: tuple[str, ...]) -> None:
    code, errors = ended(*words)
    assert code == 2 and len(errors.splitlines()) == 1


def test_a_model_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    code, errors = ended("--http", "0", "--model", str(tmp_path))
    assert code == 1 and str(tmp_path) in errors and "listening" not in errors


def test_no_other_model_takes_the_place_of_one_that_cannot_be_loaded() -> None:
    told = forks.run([*STAND_IN, "127.0.0.1", "", "missing"], ENV)
    assert (told.returncode, told.stderr) == (1, "there is no model called missing; choose another\n")


def test_an_address_of_another_machine_is_a_failure() -> None:
    code, errors = ended("--http", "0", "--host", "192.0.2.1")
    assert code == 1 and "192.0.2.1:0 cannot be used" in errors


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "h11"])
def test_a_package_that_is_missing_is_named(package: str) -> None:
    code, errors = ended(code=WITHOUT.format(package, ["serve", "--http", "0"]))
    assert (code, errors) == (
        1,
        "efim-ls: serving HTTP needs starlette and uvicorn: install efim-ls with its extra `http`\n",
    )


def test_text_without_a_path_never_reaches_the_disk(tmp_path: Path) -> None:
    before = "import os\n\n\ndef size(path):\n    return os.path."
    with serving(tmp_path / "nameless") as server:
        server.infill(before)
        server.post("/v1/completions", {"segments": {"prefix": before, "filepath": "src/size.py"}})
        assert server.stop()[0] == 0
    with serving(tmp_path / "named") as server:
        server.post("/v1/completions", {"segments": {"prefix": before, "filepath": "/src/size.py"}})
        assert server.stop()[0] == 0
    kept = {name: bool(list(Path(tmp_path, name).rglob("notes/*"))) for name in ("nameless", "named")}
    assert kept == {"nameless": False, "named": True}
