"""`efim-ls completion`: real shells read the script, and are asked what they would complete."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from efim_ls.cli import build_parser
from efim_ls.commands.arguments import subparsers
from tests.lsp.wire import ENV
from tests.waiting import HANG

ASK_BASH = r"""
eval "$(cat script)"
function=$(complete -p efim-ls | sed 's/.*-F \([^ ]*\).*/\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$function efim-ls "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that shells work in."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "page.py").touch()
    (folder / "package").mkdir()
    return folder


def script(shell: str, folder: Path) -> None:
    command = [sys.executable, "-m", "efim_ls", "completion", shell]
    done = subprocess.run(command, env=ENV, capture_output=True, encoding="utf-8", timeout=HANG, check=True)
    (folder / "script").write_text(done.stdout, encoding="utf-8")


def ask(command: Sequence[str], folder: Path) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=HANG, check=False)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.split("\n") if line]


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes_commands_options_choices_and_paths(folder: Path) -> None:
    script("bash", folder)

    def bash(*words: str) -> list[str]:
        return ask(["bash", "--norc", "--noprofile", "-c", ASK_BASH, "bash", "efim-ls", *words], folder)

    assert set(bash("")) == set(subparsers(build_parser()))
    assert bash("comp") == ["complete", "completion"]
    assert bash("cache", "") == ["ls", "verify", "clear"]
    assert bash("cache", "clear", "--f") == ["--file", "--folder"]
    assert bash("stop", "--a") == ["--all"]
    assert bash("complete", "pa") == ["package", "page.py"] or bash("complete", "pa") == ["page.py", "package"]
    assert bash("stats", "--folder", "") == ["package"]


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish")
def test_fish_completes_commands_options_and_choices(folder: Path) -> None:
    script("fish", folder)

    def fish(line: str) -> list[str]:
        return ask(["fish", "--no-config", "-c", f"source script; complete -C '{line}'"], folder)

    assert fish("efim-ls comp") == ["complete", "completion"]
    assert fish("efim-ls cache v") == ["verify"]
    assert fish("efim-ls stop --a") == ["--all"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh")
def test_zsh_completes_commands_and_choices(folder: Path) -> None:
    script("zsh", folder)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb"})

    def until(words: str) -> None:
        shown = ""
        while words not in shown:
            ready, _, _ = select.select([terminal], [], [], HANG)
            assert ready, f"after {shown!r} comes no {words!r}"
            shown += os.read(terminal, 1 << 16).decode(errors="replace")

    os.write(terminal, b'autoload -Uz compinit; compinit -D -u; eval "$(cat script)"; print REA"DY"\n')
    until("READY")
    for typed, completed in (("ca", "cache "), ("cache v", "verify ")):
        os.write(terminal, f"\x15efim-ls {typed}\t".encode())
        until(f"efim-ls {typed.rpartition(' ')[0]}".rstrip() + f" {completed}")
    os.close(terminal)
    os.waitpid(process, 0)
