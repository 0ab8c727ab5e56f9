"""What the VS Code extension does if suggestions are off, or if the server is gone, wrong or missing."""

from __future__ import annotations

import os
import shutil
import signal

from tests.waiting import eventually

from .conftest import WHOLE_LINES, Opening, newest_only
from .drivers.machine import BARE, Machine
from .drivers.shapes import BEGUN, HEAD, REST
from .drivers.window import Window

pytestmark = newest_only  # what it says and starts is the extension's own doing


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
    window = opened(suggestions=WHOLE_LINES)
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


def test_a_killed_server_is_started_again(opened: Opening, machine: Machine):
    """The server is found on the PATH."""
    machine.put_server_on_path()
    window = opened(python="", suggestions=WHOLE_LINES)
    window.see_status("ready")
    [killed] = window.code.language_servers()
    window.forget_status()  # or what is typed could come before the next server, and nobody asks again
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
    assert window.is_coloured
    window.picture("error")
    see_tooltip_with_what_works(window)
    message.get_by_role("button", name="Open Settings").click()
    window.page.locator(".settings-editor .setting-item", has_text="Python").first.wait_for()


def see_tooltip_with_what_works(window: Window) -> None:
    """See that the tooltip breaks lines between words, and names the remedies of a Python that is not there."""
    told = window.hover_status("does not exist")
    assert "\u00a0" not in told
    message = "/nowhere/bin/python does not exist. Correct the setting efim-ls.python, or empty it"
    assert message in told, told
    links = [each.inner_text() for each in window.page.locator(".workbench-hover a").all()]
    assert links == ["Open Settings", "Install the Server", "Log", "Menu"]
    window.leave_status()


def test_a_python_without_the_server_is_named(opened: Opening):
    window = opened(python=str(BARE))
    window.see_message(f"{BARE} has no efim-ls")
    window.see_status("error", "efim-ls")


def test_an_installation_is_offered_where_no_server_is(opened: Opening, machine: Machine):
    assert shutil.which("efim-ls", path=machine.environment["PATH"]) is None
    window = opened(python="")
    message = window.see_message("efim-ls needs its server.")
    window.picture("no-server")
    told = message.inner_text()
    assert "pip fetches the packages that it needs: about 25 MB to download" in told and "efim-ls." not in told
    assert message.get_by_role("button", name="Install").is_visible()
    assert message.locator(".codicon-info").is_visible()
    window.see_status("no server", "efim-ls needs its server.")
    assert not window.is_coloured
    window.see_first_choice("Install the Server")
    window.picture("menu-without-server")
