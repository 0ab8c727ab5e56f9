"""The command line: mistakes are one line and status 2, and every command reaches what it names."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from efim_ls import cli
from tests.processes.command_line import run, status


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["dance"], "there is no command 'dance': see efim-ls --help"),
        (["stat"], "there is no command 'stat': use stats, or see efim-ls --help"),
        (["serve", "--tcp", "x"], "--tcp: expected a port from 0 (any) to 65535, got 'x'"),
        (["serve", "--tcp", "99999"], "--tcp: expected a port from 0 (any) to 65535, got '99999'"),
        (["cache"], "required: ls|verify|clear; see efim-ls cache --help"),
        (["cache", "list"], "invalid choice: 'list'"),
        (["completion"], "required: bash|zsh|fish; see efim-ls completion --help"),
        (["complete"], "required: FILE:LINE:COLUMN"),
        (["complete", "a.py"], "write FILE:LINE:COLUMN, both counted from 1"),
        (["complete", "a.py:0:1"], "write FILE:LINE:COLUMN, both counted from 1"),
        (["complete", "none.py:1:1"], "none.py is not a file: check the path"),
        (["complete", "/dev/null:1:1"], "/dev/null is not a regular file: check the path"),
        (["complete", "pipe:1:1"], "pipe is not a regular file: check the path"),
        (["context", "pipe:1:1"], "pipe is not a regular file: check the path"),
    ],
)
def test_a_mistake_is_one_line(
    argv: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert status(cli.main, argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("efim-ls")
    assert complaint in err
    assert err.count("\n") == 1


def test_without_a_command_it_serves(monkeypatch: pytest.MonkeyPatch):
    served: list[str] = []
    monkeypatch.setattr("efim_ls.daemon.relay.exec_relay", lambda: served.append("relay"))
    monkeypatch.setattr("efim_ls.lsp.server.serve", lambda port: served.append(str(port)) or 0)  # pyright: ignore
    assert [cli.main([]), cli.main(["serve"]), cli.main(["serve", "--tcp", "9"])] == [0, 0, 0]
    assert served == ["relay", "None", "relay", "None", "9"]


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_one_line(option: str, capsys: pytest.CaptureFixture[str]):
    assert status(cli.main, [option]) == 0
    assert capsys.readouterr() == (f"efim-ls {version('efim-ls')}\n", "")


def test_help_loads_no_library():
    code = (
        "import sys\nfrom efim_ls.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
        "    print({'torch', 'pygls', 'rich', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    assert all(command in done.stdout for command in ("serve", "headless", "complete", "doctor", "context", "demo"))


def test_the_doctor_opens_no_store(tmp_path: Path):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "efim_ls", "doctor"], env=env, capture_output=True, check=False)
    assert done.returncode == 0 and b"store" not in done.stdout
    assert list(tmp_path.rglob("blocks.kv")) == []


def test_complete_prints_what_fits_at_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "größe.py"
    path.write_text("def area(width, height):\n    return width * height\n\n\ndef edge(wid", encoding="utf-8")
    assert cli.main(["complete", f"{path}:5:13"]) == 0
    assert capsys.readouterr().out.startswith("th, height")


def test_the_demo_without_a_terminal_is_a_line_a_key_and_a_summary():
    done = run("efim_ls", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "loading model"
    assert "1 Enter" in lines[1]
    summary = dict(line.strip("│ ").split("│") for line in lines if line.startswith("│"))
    figures = {label.strip(): value.split()[0].replace(",", "") for label, value in summary.items()}
    assert int(figures["suggestions shown"]) > 0
    assert int(figures["suggestions accepted"]) > 0
    assert int(figures["tokens recomputed"]) < int(figures["tokens reused"]) / 10
