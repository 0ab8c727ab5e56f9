"""The status bar item of the VS Code extension: what its tooltip and its menu say and mend."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Opening
from .drivers.shapes import BEGUN, HEAD, REST
from .drivers.waiting import eventually
from .drivers.window import Window

BARE = "/usr/bin:/bin"  # where no server is


def first_choice(window: Window, label: str) -> None:
    rows = window.open_menu()
    eventually(lambda: label in rows.first.inner_text(), lambda: f"the first row is {rows.first.inner_text()!r}")


def see_ghost_begin(window: Window, text: str) -> None:
    """Wait for ghost text that begins so: where the user asks, it has more lines."""
    eventually(lambda: window.ghost.startswith(text), lambda: f"the ghost text is {window.ghost!r}")


def test_the_tooltip_breaks_lines_between_words_and_offers_what_works(opened: Opening) -> None:
    window = opened(python="/nowhere/bin/python")
    window.see_status("error")
    told = window.hover_status("does not exist")
    assert "\u00a0" not in told
    message = "/nowhere/bin/python does not exist. Correct the setting efim-ls.python, or empty it"
    assert message in told, told
    links = [each.inner_text() for each in window.page.locator(".workbench-hover a").all()]
    assert links == ["Open Settings", "Install the Server", "Log", "Menu"]


def test_the_menu_without_a_server_begins_with_its_installation(opened: Opening) -> None:
    window = opened(python="", env={"PATH": BARE})
    window.see_status("error", "no server was found")
    first_choice(window, "Install the Server")
    window.picture("menu-without-server")


def test_a_wrong_model_is_told_and_mended_by_choosing_another(opened: Opening, tmp_path: Path) -> None:
    window = opened(model="/no/such/model")
    message = window.see_message("using the embedded model, because '/no/such/model' is not a folder here")
    assert message.get_by_role("button", name="Choose a Model...").is_visible()
    window.see_status("ready", "using the embedded model")
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    first_choice(window, "Choose a Model...")
    assert "/no/such/model" in window.page.locator(".quick-input-title").inner_text()
    window.choices.first.click()
    window.page.locator(".quick-input-title", has_text="Choose a Model").wait_for()
    embedded = window.choices.filter(has_text="the embedded model")
    embedded.wait_for()
    assert "million parameters" in embedded.inner_text() and "Fits this machine as" in embedded.inner_text()
    assert window.choices.filter(has_text="Qwen/Qwen2.5-Coder-0.5B").first.is_visible()
    window.picture("models")
    embedded.click()
    settings = tmp_path / "home" / "data" / "Machine" / "settings.json"
    eventually(
        lambda: "efim-ls.model" not in json.loads(settings.read_text("utf-8")),
        lambda: f"the settings are {settings.read_text('utf-8')}",
    )
    window.see_status("ready", "the model is ready")


def test_the_menu_snoozes_suggestions_and_ends_that(opened: Opening) -> None:
    window = opened()
    window.see_status("ready")
    window.open_menu()
    window.choose("Snooze for 5 minutes")
    window.see_status("snoozed", "Suggestions are snoozed until")
    asked = len(window.code.conversation.sent("textDocument/inlineCompletion"))
    window.type(HEAD + BEGUN)
    window.press("Alt+Backslash")
    see_ghost_begin(window, REST)
    assert len(window.code.conversation.sent("textDocument/inlineCompletion")) == asked + 1, "only by key"
    window.press("Escape")
    first_choice(window, "End Snooze")
    window.choose("End Snooze")
    window.see_status("ready")
    window.type("g")
    see_ghost_begin(window, REST.removeprefix("g"))


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_the_walkthrough_ticks_the_server_that_starts_before_or_after_it(opened: Opening, before: bool) -> None:
    window = opened()
    if before:
        window.see_status("ready")
    window.command("Welcome: Open Walkthrough...")
    window.choices.filter(has_text="Get Started with efim-ls").click()
    done = window.page.locator(".getting-started-step", has=window.page.locator(".codicon-pass-filled, .complete"))
    done.filter(has_text="server").first.wait_for()
    window.picture("walkthrough")
