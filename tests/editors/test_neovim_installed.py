"""How the Neovim plugin is installed, what it says if something is wrong, and how it restarts a dead server."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import daemons
from tests.waiting import eventually

from .conftest import need
from .drivers.neovim import LOAD, PLUGIN, PYTHONLESS, RECORDER, ROOT, SETUP, Neovim, environment, neovim
from .drivers.processes import RELAY, descendants
from .fetching.neovim import NATIVE, OLDER
from .fetching.programs import TMUX

TEXT = "@overload\ndef area_of_circle(radius: float) -> float:\n    return 3.14 * radius * radius\n\n\n"
NATIVE_ALONE = 'vim.lsp.enable("efim_ls")\nvim.lsp.inline_completion.enable()\n'
LSPCONFIG = ROOT / "editor_clients" / "nvim-lspconfig"
SCREENSHOTS = ROOT / "build" / "screenshots"


@pytest.fixture(params=(NATIVE, OLDER), ids=lambda part: part.key)
def program(request: pytest.FixtureRequest) -> Path:
    return need(request.param)


def health(editor: Neovim) -> str:
    editor.api.command("checkhealth efim_ls")
    return "\n".join(editor.lines)


def server_of(editor: Neovim, *, but: tuple[int, ...] = ()) -> int:
    """Return the process id of what the editor started as its server; 0 if there is no other than these."""
    below = descendants(editor.api.funcs.getpid())
    return next((pid for pid, command in below.items() if command.endswith(RELAY) and pid not in but), 0)


def suggests(editor: Neovim) -> None:
    editor.edit("a.py", TEXT)
    editor.ready()
    editor.type("o", "def area_of_ci")
    assert editor.ghost().startswith("rcle(radius: float) -> float:")


@pytest.mark.parametrize("put", (os.symlink, shutil.copytree), ids=("linked", "copied"))
def test_a_package_is_all_it_takes(program: Path, tmp_path: Path, put: Callable[[Path, Path], object]) -> None:
    """Linked from a clone or unpacked from a release, which holds a copy, it is healthy."""
    package = tmp_path / "data" / "nvim" / "site" / "pack" / "any" / "start" / "efim-ls"
    package.parent.mkdir(parents=True)
    put(PLUGIN, package)
    init = f'vim.opt.packpath:prepend("{tmp_path}/data/nvim/site")\n' + RECORDER
    init += 'vim.cmd.packloadall()\nrequire("efim_ls").setup({ keys = { accept = "<Tab>" } })\n'
    with neovim(program, tmp_path, init) as editor:
        suggests(editor)
        editor.type("<Esc>")
        report = health(editor)
    assert not re.search(r"ERROR|WARNING", report), report
    way = "vim.lsp.inline_completion" if program == need(NATIVE) else "this plugin"
    for line in (f"suggestions are drawn by {way}", "efim-ls: efim-ls ", "1 buffer", "ready: ", "<Tab>: accept"):
        assert line in report


def test_neovims_own_switches_are_enough(tmp_path: Path) -> None:
    with neovim(need(NATIVE), tmp_path, RECORDER + LOAD + NATIVE_ALONE) as editor:
        suggests(editor)
        editor.lua("vim.lsp.inline_completion.get()")
        editor.until("the line", lambda: "def area_of_circle(radius: float) -> float:" in editor.lines[-2:])
        editor.until("the count", lambda: editor.request("efim/stats")["accepted"] == 1)


def test_the_file_for_lspconfig_is_enough(tmp_path: Path) -> None:
    """Without the plugin, as nvim-lspconfig has its files on the runtime path."""
    settings = 'vim.lsp.config("efim_ls", { init_options = { suggestions = 0 } })\n'
    with neovim(need(NATIVE), tmp_path, f'vim.opt.rtp:prepend("{LSPCONFIG}")\n{settings}{NATIVE_ALONE}') as editor:
        editor.edit("a.py", TEXT)
        editor.until("a server", editor.served)
        editor.until("a model", lambda: editor.request("efim/status")["state"] == "ready")
        editor.type("o", "def area_of_ci")
        assert editor.ghost().startswith("rcle(radius: float) -> float:")
        editor.lua("vim.lsp.inline_completion.get()")
        editor.until("the line", lambda: "def area_of_circle(radius: float) -> float:" in editor.lines[-2:])
        assert not editor.lua('return package.loaded["efim_ls"]')


def test_a_server_that_died_is_started_again(program: Path, tmp_path: Path) -> None:
    with neovim(program, tmp_path, RECORDER + SETUP.replace("OPTIONS", "")) as editor:
        suggests(editor)
        assert (first := server_of(editor))
        os.kill(first, signal.SIGKILL)
        second = editor.until("another server", lambda: server_of(editor, but=(first,)))
        editor.until("the end of the first", lambda: "signal 9" in editor.notices)
        editor.ready()
        editor.type("r")
        assert editor.ghost().startswith("cle(radius: float) -> float:")
        editor.api.command("Efim restart")
        editor.until("another server", lambda: server_of(editor, but=(first, second)))
        editor.ready()


def test_a_daemon_that_died_is_replaced_unnoticed(program: Path, tmp_path: Path) -> None:
    with neovim(program, tmp_path, RECORDER + SETUP.replace("OPTIONS", "")) as editor:
        suggests(editor)
        relay, notices = server_of(editor), editor.notices
        daemons.kill_all()
        editor.type("r")
        editor.ready()
        editor.type("c")
        assert editor.ghost().startswith("le(radius: float) -> float:")
        assert (server_of(editor), editor.notices) == (relay, notices)


# Begins well, and ends in an error as soon as it is told of a document.
MORTAL = """
import sys
answer = b'{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"textDocumentSync":1}}}'
while line := sys.stdin.buffer.readline():
    size = int(line.split()[1])
    while sys.stdin.buffer.readline().strip():
        pass
    message = sys.stdin.buffer.read(size)
    if b'"initialize"' in message:
        sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(answer) + answer)
        sys.stdout.buffer.flush()
    elif b"didOpen" in message:
        sys.exit(3)
"""


def test_a_server_that_dies_again_and_again_is_given_up(program: Path, tmp_path: Path) -> None:
    (tmp_path / "mortal.py").write_text(MORTAL, "utf-8")
    options = f'cmd = {{ "{sys.executable}", "{tmp_path}/mortal.py" }}'
    with neovim(program, tmp_path, RECORDER + SETUP.replace("OPTIONS", options)) as editor:
        editor.edit("a.py", TEXT)
        editor.until("a notice", lambda: "ended too often" in editor.notices)
        assert editor.notices.count("exit code 3") == 5
        assert ":Efim restart" in editor.notices


def test_the_status_says_that_the_server_is_starting(program: Path, tmp_path: Path) -> None:
    os.mkfifo(gate := tmp_path / "gate")
    options = f'cmd = {{ "sh", "-c", "read word < {gate}; exec efim-ls" }}'
    with neovim(program, tmp_path, RECORDER + SETUP.replace("OPTIONS", options)) as editor:
        editor.edit("a.py", TEXT)
        editor.until("a status", lambda: editor.efim("status()") == "efim starting")
        gate.write_text("go\n", "utf-8")
        editor.ready()


def test_a_wrong_model_is_in_the_status(program: Path, tmp_path: Path) -> None:
    options = 'settings = { model = "/no/such/model" }'
    with neovim(program, tmp_path, RECORDER + SETUP.replace("OPTIONS", options)) as editor:
        suggests(editor)
        assert editor.efim("status()").endswith("(embedded model)")


def test_a_program_that_is_no_server(program: Path, tmp_path: Path) -> None:
    with neovim(program, tmp_path, RECORDER + SETUP.replace("OPTIONS", 'cmd = { "false" }')) as editor:
        editor.edit("a.py", TEXT)
        editor.until("a notice", lambda: "ended when it was started" in editor.notices)
        editor.until("Neovim's own", lambda: "quit with exit code 1" in editor.notices)
        _, _, last = editor.notices.partition("quit with exit code 1")
        assert "ended when it was started" in last, "what Neovim says does not cover it"
        assert editor.efim("status()") == "efim no server"
        assert "`false --version` does not run efim-ls" in health(editor)


NOWHERE = 'cmd = { "/no/such/efim-ls" }'


def told_once_that_it_is_not_there(program: Path, folder: Path, init: str) -> None:
    with neovim(program, folder, RECORDER + init) as editor:
        editor.edit("a.py", TEXT)
        editor.edit("b.py", TEXT)
        said = editor.until("a notice", lambda: editor.notices)
        assert editor.efim("status()") == "efim no server"
        assert said.count("cannot run /no/such/efim-ls") == 1 and ":help efim-ls-installing" in said
        assert "traceback" not in editor.api.command_output("messages")
        assert re.search("ERROR.* cannot run /no/such/efim-ls", health(editor))


def test_a_command_that_is_not_there(program: Path, tmp_path: Path) -> None:
    told_once_that_it_is_not_there(program, tmp_path, SETUP.replace("OPTIONS", NOWHERE))


def test_a_command_that_is_not_there_by_neovims_own_switches(tmp_path: Path) -> None:
    init = f'{LOAD}vim.lsp.config("efim_ls", {{ {NOWHERE} }})\n{NATIVE_ALONE}'
    told_once_that_it_is_not_there(need(NATIVE), tmp_path, init)


def test_help_is_found(program: Path, tmp_path: Path) -> None:
    with neovim(program, tmp_path, LOAD) as editor:
        docs = tmp_path / "doc"
        docs.mkdir()
        (docs / "efim-ls.txt").write_text((PLUGIN / "doc" / "efim-ls.txt").read_text("utf-8"), "utf-8")
        editor.api.command(f"helptags {docs}")
        tags = (docs / "tags").read_text("utf-8")
        functions = editor.lua('return vim.tbl_keys(require("efim_ls"))')
        commands = editor.lua('return require("efim_ls.commands").names("")')
        groups = [name for name in editor.api.api.get_hl(0, {}) if name.startswith("Efim")]
    wanted = [f"efim_ls.{name}()" for name in functions] + [f":Efim-{name}" for name in commands]
    assert [name for name in wanted + [f"hl-{name}" for name in groups] if f"{name}\t" not in tags] == []


Screen = tuple[Callable[[], str], Callable[..., None]]


@contextmanager
def screen_of(program: Path, folder: Path) -> Iterator[Screen]:
    """Edit a folder's area.py in a terminal; yield what shows the screen, and what types."""
    tmux = (
        "tmux",
        "-S",
        str(folder / "tmux"),
    )  # a test's own: one that is still ending refuses the next one's window

    def screen() -> str:
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout

    def keys(*words: str) -> None:
        subprocess.run([*tmux, "send-keys", *words], check=True)

    words = [str(program), "-n", "--clean", *PYTHONLESS, "-u", str(folder / "init.lua")]
    status = "+set laststatus=2 statusline=%f\\ %=%{%v:lua.require'efim_ls'.status()%}"
    new = ["-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "20", *words, status, str(folder / "area.py")]
    subprocess.run([*tmux, *new], env=environment(folder), check=True)
    try:
        yield screen, keys
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def test_a_person_sees_that_there_is_no_server(program: Path, tmp_path: Path) -> None:
    """The message is no error of init.lua, and stands when Neovim has said what it has to say of the file."""
    need(TMUX)
    (tmp_path / "init.lua").write_text(SETUP.replace("OPTIONS", NOWHERE), "utf-8")
    (tmp_path / "area.py").write_text(TEXT, "utf-8")
    with screen_of(program, tmp_path) as (screen, keys):
        eventually(lambda: "cannot run /no/such/efim-ls: there is no such program." in screen(), screen)
        assert "init.lua" not in screen()
        keys("Enter")
        eventually(lambda: "efim no server" in screen(), screen)


def test_a_person_sees_it_in_a_terminal(program: Path, tmp_path: Path) -> None:
    need(TMUX)
    (tmp_path / "init.lua").write_text(SETUP.replace("OPTIONS", 'keys = { accept = "<Tab>" }'), "utf-8")
    (tmp_path / "area.py").write_text(TEXT, "utf-8")
    with screen_of(program, tmp_path) as (screen, keys):
        eventually(lambda: "efim ready" in screen(), screen)
        keys("G", "o")
        keys("-l", "def area_of_ci")
        eventually(lambda: screen().count("def area_of_circle(radius: float) -> float:") == 2, screen)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (SCREENSHOTS / f"neovim-{program.parents[1].name}.txt").write_text(screen(), "utf-8")
        keys("Tab")
        keys("-l", "  # seen")
        keys("Escape")

        def is_saved() -> bool:
            """Save until the file has it: Neovim takes keys that wait before it inserts what was accepted."""
            keys("-l", ":w\n")
            return "\ndef area_of_circle(radius: float) -> float:  # seen" in (tmp_path / "area.py").read_text(
                "utf-8"
            )

        eventually(is_saved, screen)
