"""A window of VS Code in Chromium, driven by keys and read as a person would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Locator, Page, TimeoutError, ViewportSize

from tests.waiting import HANG, eventually

from ..fetching.part import ROOT
from .vscode import VSCode

SCREENSHOTS = ROOT / "build" / "screenshots"
SIZE = ViewportSize(width=1000, height=600)
CHROMIUM = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
HOVER = 5_000  # milliseconds in which a tooltip appears, or is hovered for again
STATUS = r"#efim-ls\.efim-ls\.status"
LOOKING = Path(__file__).with_name("looking.js").read_text("utf-8")


@dataclass(frozen=True)
class Window:
    """One page, and the file that is open in it."""

    code: VSCode
    page: Page
    file: Path

    def type(self, text: str, delay: float = 10) -> None:
        """Type as a person does, `delay` milliseconds from key to key."""
        self.page.keyboard.type(text, delay=delay)

    def press(self, *keys: str) -> None:
        for each in keys:
            self.page.keyboard.press(each)

    @property
    def line(self) -> str:
        """The text of the cursor's line, without ghost text."""
        return self.page.evaluate("looking.painted(() => looking.line())")

    @property
    def place(self) -> str:
        """The cursor's place as the status bar tells it."""
        return self.page.locator(r"#status\.editor\.selection").inner_text()

    @property
    def ghost(self) -> str:
        """The ghost text, all of its lines."""
        return self.page.evaluate("looking.painted(() => looking.ghost())")

    def see_line(self, text: str) -> None:
        eventually(lambda: self.line == text, lambda: f"the line is {self.line!r}, not {text!r}")

    def see_ghost(self, text: str) -> None:
        eventually(lambda: self.ghost == text, lambda: f"the ghost text is {self.ghost!r}, not {text!r}")

    def watch(self) -> None:
        """Start to record what each frame shows."""
        self.page.evaluate("void looking.watch()")

    def watched(self) -> list[tuple[str, str]]:
        """Return each line and ghost text that a frame has shown since `watch`, in order."""
        return [(line, ghost) for line, ghost in self.page.evaluate("looking.unwatch()")]

    def open(self) -> None:
        """Open the file as a person does, and move the cursor to its end."""
        self.press("Control+p")
        self.page.keyboard.insert_text(str(self.file))
        self.page.locator(".quick-input-list .monaco-list-row.focused", has_text=self.file.name).wait_for()
        self.press("Enter")
        self.page.locator(".tab.active", has_text=self.file.name).wait_for()
        self.go_to_end(self.file.read_text("utf-8"))

    def show(self, text: str) -> None:
        """Set the file's text, on disk and here, and move the cursor to its end."""
        self.press("Escape")
        self.type(" ")
        self.page.locator(".tab.active.dirty").wait_for()  # so that its end tells when the file has been read
        self.file.write_text(text, "utf-8")
        self.command("File: Revert File")
        self.page.locator(".tab.active:not(.dirty)").wait_for()
        self.go_to_end(text)

    def go_to_end(self, text: str) -> None:
        """Move the cursor to the end of the file, which has this text."""
        lines = text.split("\n")
        place = f"Ln {len(lines)}, Col {len(lines[-1]) + 1}"

        def at_end() -> bool:
            self.press("Control+End")
            return self.line == lines[-1] and self.place == place

        eventually(at_end, lambda: f"the cursor is at {self.place}, not {place}, and the line is {self.line!r}")

    def see_saved(self, text: str) -> None:
        """Save the file; wait until the disk holds this text and VS Code knows, since before it reverts nothing."""
        self.press("Control+S")

        def saved() -> bool:
            return self.file.read_text("utf-8") == text and not self.page.locator(".tab.active.dirty").count()

        eventually(saved, lambda: f"saved was {self.file.read_text('utf-8')!r}")

    def condition(self) -> str:
        """Return what a failed test needs to know: tabs, messages, what the server heard and said, VS Code's log."""
        shown = self.page.locator(".tab.active, .notification-list-item, .monaco-dialog-box").all()
        seen = [f"{each.get_attribute('class')}: {each.inner_text()!r}" for each in shown]
        said = [json.dumps(each)[:300] for each in self.code.conversation.said[-12:]]
        return "\n".join([*seen, *said, f"exit code of VS Code: {self.code.process.poll()}", self.code.log[-1000:]])

    def command(self, title: str) -> None:
        """Run a command from the palette, which closes if something else takes the focus meanwhile.

        It returns once the palette is closed: until then keys would go there.
        """
        asked = self.page.locator(".quick-input-widget input[type=text]:focus")

        def asks() -> bool:
            if not asked.count():
                self.press("F1")
            return asked.count() > 0

        eventually(asks, self.condition)
        asked.fill(f">{title}")
        row = self.page.locator(f'.quick-input-list .monaco-list-row.focused[aria-label^="{title}"]')
        row.wait_for()
        row.click()
        row.wait_for(state="hidden")

    @property
    def status(self) -> str:
        """The status bar item as screen readers get it: state and message."""
        item = self.page.locator(f"{STATUS} [aria-label]")
        return item.first.get_attribute("aria-label") or "" if item.count() else ""

    def forget_status(self) -> None:
        """Let the status bar item tell nothing until VS Code has drawn it anew."""
        self.page.locator(f"{STATUS} [aria-label]").first.evaluate("item => item.setAttribute('aria-label', '')")

    @property
    def is_coloured(self) -> bool:
        """Whether the status bar item has the background of an error or a warning."""
        return "has-background-color" in (self.page.locator(STATUS).get_attribute("class") or "")

    def see_status(self, state: str, message: str = "") -> None:
        def seen() -> bool:
            return self.status.startswith(f"efim-ls: {state}") and message in self.status

        eventually(seen, lambda: f"the status bar tells {self.status!r}, not {state!r} with {message!r}")

    def hover_status(self, having: str = "A typical key") -> str:
        """Return the tooltip of the status bar item, once it has a word.

        VS Code hides it when the item or the focus changes, and shows it again only to a pointer that has left.
        """
        tooltip = self.page.locator(".workbench-hover", has_text=having)

        def shown() -> bool:
            self.page.mouse.move(0, 0)
            self.page.locator(STATUS).hover()
            with suppress(TimeoutError):
                tooltip.wait_for(timeout=HOVER)
            return tooltip.is_visible()

        eventually(shown, lambda: f"the tooltip of the status bar item does not tell {having!r}")
        return tooltip.inner_text()

    def leave_status(self) -> None:
        """Move the pointer away from the status bar item: its tooltip may lie over a message."""
        self.page.mouse.move(0, 0)

    def open_menu(self) -> Locator:
        """Click the status bar item; return the rows of its menu."""
        self.page.locator(STATUS).click()
        self.choices.first.wait_for()
        return self.choices

    def see_first_choice(self, label: str) -> None:
        """Open the menu of the status bar item, and wait until its first row has this label."""
        rows = self.open_menu()
        eventually(lambda: label in rows.first.inner_text(), lambda: f"the first row is {rows.first.inner_text()!r}")

    def pick(self, label: str) -> None:
        """Click a row of the list that is open, and wait until that is closed: the next one may look like it."""
        self.choices.filter(has_text=label).first.click()
        self.page.locator(".quick-input-widget").wait_for(state="hidden")

    def choose(self, label: str) -> None:
        """Pick a row of the list that is open, then go back to the end of the file."""
        self.pick(label)
        self.page.locator(".monaco-editor .view-lines").click()
        self.press("Control+End")

    @property
    def choices(self) -> Locator:
        """The rows of the list that is open, as the palette is."""
        return self.page.locator(".quick-input-widget:visible .quick-input-list .monaco-list-row")

    def see_message(self, text: str) -> Locator:
        """Wait for a notification with this text."""
        found = self.page.locator(".notification-list-item", has_text=text).first
        found.wait_for(timeout=1000 * HANG)
        return found

    @property
    def menu(self) -> Locator:
        """The rows of the completion menu."""
        return self.page.locator(".suggest-widget.visible .monaco-list-row")

    def picture(self, name: str) -> None:
        """Save a screenshot."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"vscode-{name}.png")


@contextmanager
def open_window(browser: Browser, code: VSCode, file: Path, scale: float = 1) -> Iterator[Window]:
    """Open a file, with its folder as the workspace and the cursor at its end."""
    context = browser.new_context(viewport=SIZE, device_scale_factor=scale)
    try:
        page = context.new_page()
        page.set_default_timeout(1000 * HANG)
        page.add_init_script(LOOKING)
        page.goto(address(code, file.parent, openFile=f"{code.authority}{file}"))
        page.locator(".monaco-editor .view-lines").click()
        page.keyboard.press("Control+End")
        yield Window(code, page, file)
    finally:
        context.close()


def address(code: VSCode, folder: Path, **payload: str) -> str:
    return f"http://{code.host}/?folder={folder}&payload={quote(json.dumps(list(payload.items())))}"
