"""The compiled decoder needs no torch, which takes seconds to import and 700 MB; nor does what refuses a mistake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from model_runtime.machine import install_command
from tests.compiled import require_compiled
from tests.lsp.wire import ENV
from tests.models import CODE
from tests.waiting import HANG

WITH_IMPORTS = {**ENV, "PYTHONPROFILEIMPORTTIME": "1"}  # a line on stderr for each import, in child processes too
HEAVY = ("torch", "transformers", "sympy", "networkx")


def run(folder: Path, *arguments: str, program: str = "efim_ls") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", program, *arguments]
    done = subprocess.run(
        command, env=WITH_IMPORTS, cwd=folder, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert imports(done, "efim_ls.commands.arguments")  # they are listed
    return done


def imports(done: subprocess.CompletedProcess[str], module: str) -> bool:
    """Whether a process imported a module, by itself or because another one needed it, which is indented."""
    return re.search(rf"\| +{re.escape(module)}\n", done.stderr) is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file to complete, a folder that holds no model, and one without weights."""
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").mkdir()
    (tmp_path / "trace.json").write_text('{"startContent": "", "txns": []}')
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "-V",
        "--version",
        "--help",
        "complete --help",
        "stats",
        "cache ls",
        "index",
        "completion bash",
        "cache",
    ],
)
def test_a_command_without_a_model_imports_no_torch(folder: Path, line: str) -> None:
    more = ["--folder", str(folder)] if line in ("stats", "cache ls", "index") else []
    done = run(folder, *line.split(), *more)
    assert done.returncode == (2 if line == "cache" else 0)
    assert not imports(done, "torch")


@pytest.mark.parametrize(
    ("line", "status", "complaint"),
    [
        ("complete a.py:1:1 --model no/such/model/here", 1, "'no/such/model/here' is not a folder here"),
        ("complete a.py:1:1 --model empty", 1, "config.json does not exist: name a folder that holds a model"),
        ("complete bytes.py:1:1", 2, "bytes.py is not UTF-8 text: convert it"),
        ("complete none.py:1:1", 2, "none.py is not a file: check the path"),
        ("headless --model ./none", 1, "'./none' is not a folder here"),
    ],
)
def test_a_mistake_is_refused_before_torch_is_imported(folder: Path, line: str, status: int, complaint: str) -> None:
    done = run(folder, *line.split())
    assert (done.returncode, done.stdout) == (status, "")
    [told] = [each for each in done.stderr.splitlines() if each.startswith("efim-ls: ")]
    assert complaint in told
    assert not imports(done, "torch")


@pytest.mark.parametrize(
    ("line", "status", "complaint"),
    [
        ("replay trace.json --model ./none", 1, "'./none' is not a folder here"),
        ("replay trace.json --model ./none --count-only", 1, "'./none' is not a folder here"),
        ("replay none.json", 2, "none.json is not a file: check the path"),
        ("eval --data . --model ./none", 1, "'./none' is not a folder here"),
        ("eval --data none.jsonl", 2, "none.jsonl cannot be read"),
    ],
)
def test_the_gate_refuses_a_mistake_before_torch_is_imported(
    folder: Path, line: str, status: int, complaint: str
) -> None:
    done = run(folder, *line.split(), program="efim_lab.gate")
    assert (done.returncode, done.stdout) == (status, "")
    [told] = [each for each in done.stderr.splitlines() if each.startswith("python -m efim_lab")]
    assert complaint in told
    assert not imports(done, "torch")


def test_the_doctor_refuses_a_wrong_model_before_torch_is_imported(folder: Path) -> None:
    done = run(folder, "doctor", "--model", "./none")
    assert done.returncode == 1
    assert done.stdout.startswith("does not work: './none' is not a folder here")
    assert not imports(done, "torch")


HIDING = f"""
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in {HEAVY!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""


@pytest.fixture
def without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own for processes in which torch and what comes with it are not installed."""
    require_compiled()
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(HIDING)
    homes = {name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "HF_HOME")}
    paths = os.pathsep.join([str(tmp_path / "hiding"), ENV["PYTHONPATH"]])
    for name, value in {**homes, "PYTHONPATH": paths}.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(WITH_IMPORTS, name, value)


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize(
    "line", ["complete a.py:2:1", "context a.py:2:1", "index", "models --json", "cache ls", "stats", "doctor"]
)
def test_where_torch_is_not_installed_every_command_works(folder: Path, line: str) -> None:
    done = run(folder, *line.split())
    assert done.returncode == 0, done.stderr
    assert not [name for name in HEAVY if imports(done, name)]


@pytest.mark.usefixtures("without_torch")
def test_where_torch_is_not_installed_a_weight_format_of_its_own_is_refused_with_the_remedy(folder: Path) -> None:
    code = "from efim_ls.completion.completer import Completer; from efim_ls.settings import Settings\n"
    code += "Completer.load(Settings(weights='fp32', persist=False), print)"
    done = subprocess.run([sys.executable, "-c", code], env=WITH_IMPORTS, capture_output=True, text=True, check=False)
    assert "it does not compute weights 'fp32'), and torch is not installed: run " in done.stderr
    assert done.stderr.endswith(f"{install_command('torch')}\n")


def session(path: Path) -> tuple[str, int]:
    """Complete at a file's end by a daemon of its own; the suggestion, and how many blocks came from the disk."""
    asked = [{"op": "open"}, {"op": "settle"}, {"op": "complete", "at": len(path.read_text())}, {"op": "stats"}]
    lines = "".join(json.dumps({"id": i, "path": str(path), **each}) + "\n" for i, each in enumerate(asked))
    command = [sys.executable, "-m", "efim_ls", "headless"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=HANG, check=True)
    subprocess.run([*command[:-1], "stop"], timeout=HANG, check=True)
    *_, completed, counted = map(json.loads, done.stdout.splitlines())
    [disk] = [tier for tier in counted["stats"]["tiers"] if tier["name"] == "disk"]
    return completed["text"], disk["read"]


@pytest.mark.usefixtures("without_torch")
def test_where_torch_is_not_installed_a_server_completes_saves_and_restores(folder: Path) -> None:
    (folder / "a.py").write_text(CODE[: CODE.index("return records")] + "ret")
    first, second = session(folder / "a.py"), session(folder / "a.py")
    assert first[0] and first == (second[0], 0) and second[1] > 0
