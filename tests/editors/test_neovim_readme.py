"""The first lines of the Neovim plugin's README, run as a user would run them, in a home that is empty."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import eventually

from .conftest import need
from .drivers.neovim import PLUGIN, ROOT, Neovim, attach, end, server_command
from .fetching.neovim import NATIVE, OLDER

README = (PLUGIN / "README.md").read_text("utf-8")
SHELL = re.search(r"in the clone's folder:\n\n((?:    .*\n)+)", README)
PACK, SETUP = re.findall(r"```lua\n(.*?)```", README, re.DOTALL)[:2]
DAEMONS = "XDG_RUNTIME_DIR"  # where those of tests are found, and stopped
TEXT = "@overload\ndef area_of_circle(radius: float) -> float:\n    return 3.14 * radius * radius\n\n\n"


@contextmanager
def started(program: Path, home: Path, init: str) -> Iterator[Neovim]:
    """Run Neovim with this as the user's own init.lua and nothing else."""
    (home / ".config" / "nvim").mkdir(parents=True)
    (home / ".config" / "nvim" / "init.lua").write_text(init, "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_") or name == DAEMONS}
    path = f"{server_command(home)}{os.pathsep}{os.environ['PATH']}"
    api = attach([str(program), "--headless", "--embed", "-n"], {**env, "HOME": str(home), "PATH": path})
    try:
        api.exec_lua("_G.notices = {}")
        loaded = "return package.loaded.efim_ls ~= nil"
        eventually(
            lambda: api.exec_lua(loaded),
            lambda: f"init.lua has not come to its end: {api.command_output('messages')}",
        )
        api.ui_attach(100, 30, rgb=True)  # not before: what init.lua prints could wait for Enter
        yield Neovim(api, home)
    finally:
        end(api)


def suggests(editor: Neovim) -> None:
    """Wait for ghost text, and accept it by the README's keys: a line, then the rest."""
    editor.edit("a.py", TEXT)
    editor.ready()
    editor.type("o", "def area_of_ci")
    assert editor.ghost().startswith("rcle(radius: float) -> float:")
    editor.type("<C-Down>")
    editor.line("def area_of_circle(radius: float) -> float:")
    editor.type("<Tab>")


@pytest.mark.parametrize("part", (NATIVE, OLDER), ids=lambda part: part.key)
def test_the_link_and_the_lines_of_the_readme_are_enough(part, tmp_path: Path) -> None:
    program = need(part)
    assert SHELL is not None
    words = ["sh", "-e", "-c", SHELL[1].replace("\n    ", "\n")]
    subprocess.run(words, cwd=ROOT, env={**os.environ, "HOME": str(tmp_path)}, check=True)
    with started(program, tmp_path, SETUP) as editor:
        suggests(editor)


def test_the_lines_for_vim_pack_are_enough(tmp_path: Path) -> None:
    """The repository is a local one with the plugin in it, since the clone has no public address."""
    program, repository = need(NATIVE), tmp_path / "repository"
    shutil.copytree(PLUGIN, repository / "editor_clients" / "neovim")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "--quiet", "-b", "main"], ["add", "."], ["commit", "--quiet", "-m", "The plugin"]):
        subprocess.run([*git, *words], check=True)
    (home := tmp_path / "home").mkdir()
    agreed = "vim.fn.confirm = function() return 1 end\n"  # Neovim asks before it installs
    init = agreed + PACK.replace("<URL of the repository>", repository.as_uri()) + SETUP
    with started(program, home, init) as editor:
        suggests(editor)
