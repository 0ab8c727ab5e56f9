"""The menu of the status bar item of the VS Code extension, and the suggestion in the list of words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Locator

from efim_ls.commands.models.running import PORTS
from tests.waiting import eventually

from .conftest import WHOLE_LINES, Opening, newest_only
from .drivers.machine import Machine
from .drivers.shapes import BEGUN, HEAD, REST
from .drivers.vscode import RESTART
from .drivers.window import Window


def see_ghost_begin(window: Window, text: str) -> None:
    """Wait for ghost text that begins so: where the user asks, it has more lines."""
    eventually(lambda: window.ghost.startswith(text), lambda: f"the ghost text is {window.ghost!r}")


def test_a_wrong_model_is_told_and_mended_by_choosing_another(opened: Opening) -> None:
    window = opened(model="/no/such/model", suggestions=WHOLE_LINES)
    message = window.see_message("using the embedded model, because '/no/such/model' is not a folder here")
    assert message.get_by_role("button", name="Choose a Model...").is_visible()
    window.see_status("ready", "using the embedded model")
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    window.see_first_choice("Choose a Model...")
    assert "/no/such/model" in window.page.locator(".quick-input-title").inner_text()
    window.choices.first.click()
    window.page.locator(".quick-input-title", has_text="Choose a Model").wait_for()
    assert not window.page.locator(".quick-input-widget input[type=text]").get_attribute("placeholder")
    embedded = window.choices.filter(has_text="Built in")
    embedded.wait_for()
    assert (
        "ms a key, " in embedded.inner_text()
        and "at a new place · Python, JavaScript, TypeScript" in embedded.inner_text()
    )
    assert "recommended here" in window.choices.first.inner_text()
    assert window.choices.filter(has_text="Qwen/Qwen2.5-Coder-0.5B").first.is_visible()
    window.picture("models")
    embedded.click()
    eventually(lambda: "efim-ls.model" not in window.code.settings_of("Machine"), window.condition)
    window.see_status("ready", "the model is ready")


class _LlamaCpp(BaseHTTPRequestHandler):
    """Answers as llama.cpp's server does when asked which model it has."""

    file: Path

    def do_GET(self) -> None:
        models = {"data": [{"id": self.file.name, "owned_by": "llamacpp"}]}
        page = json.dumps(models if self.path == "/v1/models" else {"model_path": str(self.file)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output to the test."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server on a port where one is looked for."""
    (tmp_path / "coder.gguf").touch()
    handler = type("Handler", (_LlamaCpp,), {"file": tmp_path / "coder.gguf"})
    for port in PORTS:
        with suppress(OSError), ThreadingHTTPServer(("127.0.0.1", port), handler) as served:
            thread = Thread(target=served.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{port}"
            served.shutdown()
            return thread.join()
    pytest.fail(f"other programs have all of the ports {PORTS}")


def choose_model(window: Window, name: str) -> None:
    window.open_menu().filter(has_text="Choose a model...").first.click()
    window.choices.filter(has_text=name).first.click()
    window.page.locator(".quick-input-widget").wait_for(state="hidden")


@newest_only
def test_a_server_on_this_machine_is_chosen_with_its_model_and_left_for_another_model(
    opened: Opening, server: str, tmp_path: Path
) -> None:
    window = opened(engine={"wait_seconds": 0.2})
    window.see_status("ready")

    def see_settings(**wanted: object) -> None:
        names = {f"efim-ls.{name}" for name in ("engine", "model")}
        expected = {f"efim-ls.{name}": value for name, value in wanted.items()}

        def are_written() -> bool:
            settings = window.code.settings_of("Machine")
            return {name: settings[name] for name in names & {*settings}} == expected

        eventually(are_written, lambda: f"the settings are {window.code.settings_of('Machine')}")

    choose_model(window, "llama.cpp server: coder.gguf")
    see_settings(engine={"url": server, "wait_seconds": 0.2}, model=str(tmp_path / "coder.gguf"))
    choose_model(window, "Built in")
    see_settings(engine={"wait_seconds": 0.2})
    window.see_status("ready", "the model is ready")


@newest_only
def test_what_enter_chooses_in_the_menu_is_harmless(opened: Opening) -> None:
    window = opened()
    window.see_status("ready")
    rows = window.open_menu()
    window.picture("menu")
    labels = rows.all_inner_texts()
    assert "Explain the suggestion at the cursor" in labels[0]
    assert [each for each in labels if "Disable for Python" in each], labels
    assert is_whole(window, rows.filter(has_text="Settings"))
    window.press("Enter")
    window.page.locator(".tab", has_text="Explain Suggestion").wait_for()
    window.see_status("ready")


def is_whole(window: Window, row: Locator) -> bool:
    """Return whether nothing of a row of the open list is cut off."""
    inner, outer = row.bounding_box(), window.page.locator(".quick-input-list").bounding_box()
    assert inner and outer
    return inner["y"] + inner["height"] <= outer["y"] + outer["height"]


@newest_only
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
    window.see_first_choice("End Snooze")
    window.choose("End Snooze")
    window.see_status("ready")
    window.type("g")
    see_ghost_begin(window, REST.removeprefix("g"))


@newest_only
def test_the_menu_sets_how_many_suggestions_there_are(opened: Opening) -> None:
    window = opened()
    window.see_status("ready")
    assert "Balanced suggestions" in current_level(window)
    window.open_menu()
    window.choose("Only when I press a key")
    see_level(window, "Only when I press a key")
    window.type(HEAD + BEGUN)
    window.hover_status("only a key asks the model")
    window.leave_status()
    window.see_status("ready")
    assert not window.ghost and not window.is_coloured
    window.press("Alt+Backslash")
    see_ghost_begin(window, REST)
    window.press("Escape")
    window.open_menu()
    window.choose("Balanced suggestions")
    see_level(window, "Balanced suggestions")
    window.type("g")
    see_ghost_begin(window, REST.removeprefix("g"))


@newest_only
def test_a_number_is_none_of_the_menus_words(opened: Opening) -> None:
    window = opened(suggestions=1)
    window.see_status("ready")
    rows = window.open_menu()
    assert rows.filter(has_text="Balanced suggestions").count() == 1
    assert rows.filter(has_text="current").count() == 0


def current_level(window: Window) -> str:
    """Open the menu of the status bar item, and close it; return the row of how many suggestions there are."""
    marked = window.open_menu().filter(has_text="current")
    marked.first.wait_for()
    [row] = marked.all_inner_texts()
    window.press("Escape")
    window.page.locator(".quick-input-widget").wait_for(state="hidden")
    window.page.locator(".monaco-editor .view-lines").click()
    window.press("Control+End")
    return row


def see_level(window: Window, label: str) -> None:
    """Wait until the menu marks this choice: VS Code writes settings to a file first."""
    eventually(lambda: label in current_level(window), lambda: f"the choice is not {label!r}")


@newest_only
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_the_walkthrough_ticks_the_server_that_starts_before_or_after_it(
    opened: Opening, machine: Machine, before: bool
) -> None:
    window = opened(python="")
    window.see_status("no server")
    if not before:
        window.page.reload()  # else VS Code knows that a server has run
        window.see_status("no server")
    window.command("Developer: Reset Welcome Page Walkthrough Progress")
    machine.put_server_on_path()
    if before:
        start_server(window)
    window.command("Welcome: Open Walkthrough...")
    window.choices.filter(has_text="Get Started with efim-ls").click()
    step = window.page.locator(".getting-started-step", has_text="server").first
    if not before:
        step.locator(".codicon-getting-started-step-unchecked").wait_for()
        start_server(window)
    step.locator(".codicon-getting-started-step-checked").wait_for()
    window.picture("walkthrough")


def start_server(window: Window) -> None:
    window.press(RESTART)  # the palette would close if the walkthrough takes the focus meanwhile
    window.see_status("ready")


def test_the_list_of_words_has_the_suggestion_where_it_is_asked_for(opened: Opening) -> None:
    window = opened(menu="always", suggestions=WHOLE_LINES)
    window.see_status("ready")
    window.page.keyboard.insert_text(HEAD)  # typed, Enter would take a word of a list that is open
    window.type(BEGUN)
    window.see_ghost(REST)
    window.press("Control+Space")
    ours = window.menu.filter(has_text="height = rect.width")
    ours.first.wait_for()
    window.picture("list-of-words")
    ours.first.click()
    window.see_line(f"    {BEGUN}{REST}")
