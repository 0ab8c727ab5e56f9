"""The extension's own tests, run by Mocha inside a real extension host."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser

from tests.waiting import eventually

from .conftest import EXTENSION, lacking, newest_only
from .drivers.vscode import running
from .drivers.window import address
from .drivers.workbench import Windows

TESTS = EXTENSION / "dist" / "test" / "index.js"
DRIVER = "--enable-smoke-test-driver"  # lets a page name tests to run; also keeps messages from being shown


@newest_only  # in the oldest a person at the keyboard does what these tests do
def test_mocha_is_content(browser: Browser, installed: tuple[Path, Path], windows: Windows, tmp_path: Path) -> None:
    if not TESTS.exists():
        lacking(f"no {TESTS.name} of the extension's tests: run `make vsix`")
    windows.close()
    (project := tmp_path / "project").mkdir()
    said, ended = list[str](), list[int]()
    with running(*installed, tmp_path / "home", {}, {}, DRIVER) as code:
        page = browser.new_page()
        page.expose_function("codeAutomationLog", lambda kind, words: kind == "error" or said.append(written(*words)))
        page.expose_function("codeAutomationExit", lambda status: ended.append(status))
        inside = {"extensionDevelopmentPath": EXTENSION, "extensionTestsPath": TESTS}
        page.goto(address(code, project, **{name: f"{code.authority}{path}" for name, path in inside.items()}))
        eventually(lambda: page.evaluate("1") and ended, lambda: "\n".join(said))
        page.close()
    report = "\n".join(said)
    print(report)
    assert ended == [0], report
    assert re.search(r"\b[1-9]\d* passing", report), report


def written(first: object, *rest: object) -> str:
    """Return what a console would show: the first value may have places for those after it."""
    values = list(rest)
    text = re.sub("%[sdo]", lambda place: str(values.pop(0)) if values else place[0], str(first))
    return " ".join([text, *map(str, values)])
