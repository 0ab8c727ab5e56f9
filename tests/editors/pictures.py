"""`python -m tests.editors.pictures`: take the pictures in the VS Code extension's README from a real VS Code."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import FloatRect, Locator, ViewportSize, sync_playwright

from .conftest import EXTENSION, VSIX
from .drivers.shapes import BEGUN, HEAD, REST, SHAPES
from .drivers.vscode import install, running
from .drivers.window import CHROMIUM as QUIET
from .drivers.window import Window, open_window
from .fetching.programs import CHROMIUM
from .fetching.vscode import NEWEST

IMAGES = EXTENSION / "images"
SMALL, LARGE = ViewportSize(width=860, height=430), ViewportSize(width=1400, height=1000)
PERSON = 150  # milliseconds from key to key
RENAMED = "def area(width, height):\n    return width * height\n\n\nprint(area(3, 4))\n"
OFFERED = """() => [...document.querySelectorAll(".editor-instance .view-line span")]
    .some((span) => getComputedStyle(span, "::after").content.includes("breadth"))"""
PLAIN = {
    "editor.scrollbar.horizontal": "hidden",
    "editor.scrollbar.vertical": "hidden",
    "editor.stickyScroll.enabled": False,
}


def main() -> None:
    program = NEWEST.program_path()
    with TemporaryDirectory() as scratch, sync_playwright() as playwright:
        extensions = Path(scratch, "extensions")
        install(program, extensions, VSIX)
        browser = playwright.chromium.launch(executable_path=CHROMIUM.program_path(), args=list(QUIET))
        for name, text, pictures in (("shapes", SHAPES, take), ("area", RENAMED, take_next_edit)):
            (file := Path(scratch, name, f"{name}.py")).parent.mkdir()
            file.write_text(text, "utf-8")
            with (
                running(program, extensions, Path(scratch, f"{name}'s home"), PLAIN, {}) as code,
                open_window(browser, code, file, scale=1.5) as window,
            ):
                window.see_status("ready")
                window.command("View: Toggle Primary Side Bar Visibility")
                window.page.set_viewport_size(SMALL)
                pictures(window)


def take(window: Window) -> None:
    window.type(HEAD + BEGUN, delay=PERSON)  # so that a typical key is one
    window.see_ghost(REST)
    keep(window, "ghost-text", window.page.locator(".editor-instance"))
    item, tooltip = window.page.locator(r"#efim-ls\.efim-ls\.status"), window.page.locator(".workbench-hover")
    item.hover()
    tooltip.get_by_text("A typical key").wait_for()
    keep(window, "status-bar", tooltip, item)
    window.page.set_viewport_size(LARGE)
    window.command("efim-ls: Explain Suggestion")
    rendered = window.page.frame_locator("iframe.webview").frame_locator("#active-frame")
    rendered.get_by_text("What the model reads").wait_for()
    window.page.locator(".editor-instance").first.hover()
    tooltip.wait_for(state="hidden")
    keep(window, "explain", window.page.locator(".editor-group-container").nth(1))


def take_next_edit(window: Window) -> None:
    """Rename a parameter; the next edit is in the line below."""
    window.press("Control+Home")
    window.see_line(RENAMED.partition("\n")[0])
    window.press(*["ArrowRight"] * RENAMED.index("width"), "Control+Shift+ArrowRight")
    window.type("breadth", delay=PERSON)
    window.press("End")
    window.page.wait_for_function(OFFERED)
    keep(window, "next-edit", window.page.locator(".editor-instance"))


def keep(window: Window, name: str, *shown: Locator) -> None:
    """Save the part of the window that holds all of these."""
    boxes = [box for each in shown if (box := each.bounding_box())]
    left, top = min(box["x"] for box in boxes), min(box["y"] for box in boxes)
    right = max(box["x"] + box["width"] for box in boxes)
    bottom = max(box["y"] + box["height"] for box in boxes)
    clip = FloatRect(x=left, y=top, width=right - left, height=bottom - top)
    window.page.screenshot(path=IMAGES / f"{name}.png", clip=clip)


if __name__ == "__main__":
    main()
