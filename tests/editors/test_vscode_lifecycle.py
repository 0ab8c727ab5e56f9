"""What the VS Code extension does if suggestions are off, or if the server is gone, wrong or missing."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from .conftest import Opening
from .drivers.neovim import server_command
from .drivers.shapes import BEGUN, HEAD, REST
from .drivers.vscode import PYTHON
from .drivers.waiting import eventually
from .drivers.window import Window

BARE = "/usr/bin:/bin"  # where no server is


def see_nothing_answered(window: Window) -> None:
    """Wait until the server has answered at the cursor with nothing."""
    line, character = window.file.read_text("utf-8").count("\n") + 1, len(f"    {BEGUN}")
    place = (line, character, ())
    eventually(
        lambda: [(a.line, a.character, a.texts) for a in window.code.conversation.answers()][-1:] == [place],
        lambda: f"the last answer is {window.code.conversation.answers()[-1:]}, not {place}",
    )
    assert window.ghost == ""


def test_a_language_is_switched_off_and_on(opened: Opening):
    window = opened()
    window.see_status("ready")
    window.command("efim-ls: Disable for This Language")
    window.see_status("off", "python")
    window.type(HEAD + BEGUN)
    see_nothing_answered(window)
    window.picture("off")
    window.command("efim-ls: Enable for This Language")
    window.see_status("ready")
    window.type("g")
    window.see_ghost(REST.removeprefix("g"))


def test_a_killed_server_is_started_again(opened: Opening, tmp_path: Path):
    """The server is found on the PATH."""
    path = f"{server_command(tmp_path)}{os.pathsep}{BARE}"
    window = opened(python="", env={"PATH": path, "PYTHONPATH": ""})
    window.see_status("ready")
    [killed] = window.code.language_servers()
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: set(window.code.language_servers()) - {killed}, lambda: "no server was started again")
    window.see_status("ready")
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    window.press("Tab")
    window.see_line(f"    {BEGUN}{REST}")
    window.command("efim-ls: Clear Cache")
    window.page.get_by_role("button", name="Clear", exact=True).click()
    window.see_message("removed: ")
    window.see_status("ready")


def test_a_python_that_is_not_there_is_named(opened: Opening):
    window = opened(python="/nowhere/bin/python")
    message = window.see_message("/nowhere/bin/python does not exist.")
    window.see_status("error", "/nowhere/bin/python does not exist.")
    window.picture("error")
    message.get_by_role("button", name="Open Settings").click()
    window.page.locator(".settings-editor .setting-item", has_text="Python").first.wait_for()


def test_a_python_without_the_server_is_named(opened: Opening):
    bare = shutil.which("python3", path=BARE) or os.path.realpath(PYTHON)
    window = opened(python=bare, env={"PYTHONPATH": ""})
    window.see_message(f"{bare} has no efim-ls")
    window.see_status("error", "efim-ls")


def test_an_installation_is_offered_where_no_server_is(opened: Opening):
    assert shutil.which("efim-ls", path=BARE) is None
    window = opened(python="", env={"PATH": BARE})
    message = window.see_message("no server was found. Install it, or name a Python that has it")
    assert message.get_by_role("button", name="Install").is_visible()
    window.see_status("error", "no server was found")
    window.picture("no-server")


def test_the_menu_has_the_suggestion_where_it_is_asked_for(opened: Opening):
    window = opened(menu="always")
    window.see_status("ready")
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    window.press("Control+Space")
    ours = window.menu.filter(has_text="height = shape.width")
    ours.first.wait_for()
    window.picture("menu")
    ours.first.click()
    window.see_line(f"    {BEGUN}{REST}")
