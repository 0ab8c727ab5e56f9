"""One window of VS Code for many tests: each begins with files, settings and a language server of its own."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser
from playwright.sync_api import Error as PlaywrightError

from tests.waiting import QUIET, eventually

from .machine import Machine
from .shapes import SHAPES
from .vscode import RESTART, TIDY, USER_SETTINGS, VSCode, running
from .window import SIZE, Window, open_window

PYTHON = "efim-ls.python"
RESTARTING = (PYTHON, "efim-ls.menu")  # a change of these settings restarts the server by itself
FAILURES = (AssertionError, PlaywrightError)
LEFT = ".tab, .notification-toast, .monaco-dialog-box"  # what tests leave open


@dataclass
class Workbench:
    """A window whose workspace, settings and server are replaced for each test."""

    code: VSCode
    window: Window
    machine: Machine
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    rounds: int = 0

    def tidy(self) -> None:
        """Close what the last test has left open, and undo what it has set and put on the machine."""
        self.window.page.set_viewport_size(SIZE)
        self.window.leave_status()
        self.close_all()
        users = self.code.settings_of("User")
        kept = {name: value for name, value in users.items() if not name.startswith("efim-ls.")}
        if kept != users:
            self.set_user_settings(kept)
            self.close_all()
        if self.settings.get(PYTHON) == "":
            self.apply({})  # what runs, or is found, is about to be removed
        self.machine.reset()

    def set_user_settings(self, users: dict[str, Any]) -> None:
        """Write them in VS Code, which does not look for changes of that file by others."""
        self.window.press(USER_SETTINGS)
        self.window.page.locator(".tab.active", has_text="settings").wait_for()
        self.window.page.locator(".editor-instance .monaco-editor.focused").wait_for()
        self.window.press("Control+A", "Delete")
        self.window.page.keyboard.insert_text(json.dumps(users))
        self.window.press("Control+S")
        eventually(lambda: self.code.settings_of("User") == users, self.window.condition)

    def close_all(self) -> None:
        """Close editors, without saving them, messages, dialogs and lists."""
        unsaved = self.window.page.locator(".monaco-dialog-box").get_by_role("button", name="Don't Save")
        left = self.window.page.locator(f"{LEFT}, .quick-input-widget:visible")
        asked_or_closed = unsaved.or_(self.window.page.locator(f"body:not(:has({LEFT}))")).first

        def closed() -> bool:
            if unsaved.is_visible():
                unsaved.click()
            else:
                self.window.press("Escape", TIDY)
            with suppress(PlaywrightError):  # pressed again too soon, it would close what is opened next
                asked_or_closed.wait_for(state="attached", timeout=1000 * QUIET)
            return not left.count()

        eventually(closed, self.window.condition)

    def begin(self, files: Mapping[str, str], settings: dict[str, Any], keep_server: bool) -> Window:
        """Let the workspace hold these files alone, set the settings, and open the first file at its end.

        With `keep_server`, a server that has these settings already goes on.
        """
        project = self.window.file.parent
        for each in project.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        for name, text in files.items():
            (path := project / name).parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        if keep_server and settings == self.settings:
            self._set(settings)  # VS Code has then done what keys told it to
        else:
            if PYTHON in settings and settings[PYTHON] == self.settings.get(PYTHON):
                self.apply({})  # so that the status changes, even if it becomes what it is
            self.apply(settings)
        window = Window(self.code, self.window.page, project / next(iter(files)))
        window.open()
        return window

    def apply(self, settings: dict[str, Any]) -> None:
        """Set all settings of the extension, and wait until another server runs or cannot be had."""
        before, self.settings = self.settings, settings
        self.window.forget_status()
        self.code.said.unlink(missing_ok=True)
        self._set(settings)
        if all(before.get(each) == settings.get(each) for each in RESTARTING):
            self.window.press(RESTART)
        eventually(lambda: self.window.status, self.window.condition)
        if PYTHON not in settings:
            eventually(lambda: self.code.conversation.sent("initialized"), lambda: "no server was started")

    def _set(self, settings: dict[str, Any]) -> None:
        """Write the settings, with a title that tells when VS Code has read them."""
        self.rounds += 1
        mark = f"round {self.rounds}"
        ours = {PYTHON: str(self.code.python), **settings, "window.title": mark}
        self.code.settings_path("Machine").write_text(json.dumps(ours), "utf-8")
        title = self.window.page.title
        eventually(lambda: mark in title(), lambda: f"the title is {title()!r}, not {mark!r}")


@contextmanager
def workbench(browser: Browser, program: Path, extensions: Path, folder: Path) -> Iterator[Workbench]:
    """Start VS Code, with its server ready."""
    machine, file = Machine(folder / "home"), folder / "project" / "shapes.py"
    machine.reset()
    file.parent.mkdir()
    file.write_text(SHAPES, "utf-8")
    with (
        running(program, extensions, machine.folder, {}, machine.environment) as code,
        open_window(browser, code, file) as window,
    ):
        window.see_status("ready")
        yield Workbench(code, window, machine)


class Windows:
    """The window that is open: one at a time, of one VS Code."""

    def __init__(self) -> None:
        """Open none yet."""
        self._stack, self._key = ExitStack(), (Path(), Path())
        self.workbench: Workbench | None = None

    def open(self, browser: Browser, installed: tuple[Path, Path], new_folder: Callable[[], Path]) -> Workbench:
        """Return the window of this VS Code, tidied; start one if it is not open, and another one if that fails."""
        try:
            return self._tidied(browser, installed, new_folder)
        except FAILURES as error:
            warnings.warn(f"the window of {installed[0].parents[1].name} is started again: {error}", stacklevel=2)
            self.close()
            return self._tidied(browser, installed, new_folder)

    def _tidied(self, browser: Browser, installed: tuple[Path, Path], new_folder: Callable[[], Path]) -> Workbench:
        if self.workbench is None or self._key != installed:
            self.close()
            self._key = installed
            self.workbench = self._stack.enter_context(workbench(browser, *installed, new_folder()))
        self.workbench.tidy()
        return self.workbench

    def close(self) -> None:
        """Close the window that is open, if any."""
        self.workbench = None
        self._stack.close()
