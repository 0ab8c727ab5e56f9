"""The view that explains a suggestion, in a real VS Code: what it shows, opens and switches off."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, TimeoutError

from tests.waiting import eventually

from ..conftest import Opening, newest_only
from ..drivers.window import Window

FLUX = "import os\n\n\ndef calibrate_flux(sensor, window):\n    return sensor.flux_capacitance_of(window)\n"
BEGUN = "def again(sensor, window):\n    return sensor.flux_cap"
PAUSE = 1000  # milliseconds between two keys
COSTS = ("kept", "ahead", "disk", "recomputed")

pytestmark = newest_only


@pytest.fixture
def source(request: pytest.FixtureRequest) -> str:
    """A file of its own for each test: VS Code holds one open for minutes that an extension has opened."""
    return f"devices/{request.function.__name__}.py"


@pytest.fixture
def window(opened: Opening, source: str) -> Window:
    """A file in whose workspace another one says what comes next, with the view beside it."""
    window = opened("page.py", BEGUN, {source: FLUX})
    window.see_status("ready")
    window.page.set_viewport_size({"width": 1600, "height": 900})
    return window


def view(window: Window) -> FrameLocator:
    return window.page.frame_locator("iframe.webview").frame_locator("#active-frame")


def explained(window: Window, source: str) -> FrameLocator:
    """The view, once it names the other file."""
    window.command("efim-ls: Explain Suggestion")
    link = view(window).get_by_role("link", name=f"{source}:5").first

    def named() -> bool:
        window.page.locator(".editor-instance .view-lines").first.click()
        window.press("Control+End", "Backspace")
        window.type("p")
        with suppress(TimeoutError):
            link.wait_for(timeout=PAUSE)
        return link.is_visible()

    eventually(named, lambda: view(window).locator("body").inner_text())
    return view(window)


def test_it_shows_who_said_what_follows_the_cursor_and_opens_places(window: Window, source: str) -> None:
    shown = explained(window, source)
    word = shown.locator("pre span", has_text="acitance").first
    assert "repository" in (word.get_attribute("class") or "")
    assert "repository" in (word.get_attribute("title") or "")
    for cost in COSTS:
        shown.locator(f"li .{cost}").wait_for()  # the view is drawn again after each key
    colours = {
        shown.locator(f"li .{cost}").evaluate("each => getComputedStyle(each).borderBottomColor") for cost in COSTS
    }
    assert len(colours) == len(COSTS)
    window.picture("explain")
    shown.get_by_role("link", name=f"{source}:5").first.click()
    window.page.locator(".tab.active", has_text=Path(source).name).wait_for()
    window.see_line("    return sensor.flux_capacitance_of(window)")
    window.press("Control+Home")
    shown.get_by_text(f"{Path(source).name}:1:1").wait_for()


def test_a_folder_is_left_out_by_a_button_and_named_no_more(window: Window, source: str) -> None:
    shown = explained(window, source)
    shown.get_by_role("button", name="Never from project/devices").click()
    settings = window.file.parent / ".vscode" / "settings.json"
    eventually(lambda: settings.exists() and settings.read_text("utf-8"), lambda: "no settings of the workspace")
    eventually(lambda: '"project/devices"' in settings.read_text("utf-8"), lambda: settings.read_text("utf-8"))
    assert json.loads(settings.read_text("utf-8")) == {"efim-ls.disabledFiles": ["project/devices"]}
    window.see_message("nothing is taken from project/devices any more")
    window.page.locator(".editor-instance .view-lines").first.click()
    window.press("Control+End", "Backspace")
    window.type("p")
    shown.get_by_text("What the model reads").wait_for()
    eventually(
        lambda: not shown.get_by_role("link", name=source).count(),
        lambda: shown.locator("body").inner_text(),
    )
