"""What editor tests share: the parts that were fetched, a browser, and windows of VS Code."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from playwright.sync_api import Browser, sync_playwright

from efim_lab.reference.settings import vscode_name

from .drivers.shapes import SHAPES
from .drivers.vscode import install, running
from .drivers.window import CHROMIUM as QUIET
from .drivers.window import Window, open_window
from .fetching import vscode as servers
from .fetching.part import ROOT, Missing, Part
from .fetching.programs import CHROMIUM

MUST_HAVE_ALL = bool(os.environ.get("CI")) and (sys.platform, platform.machine()) == ("linux", "x86_64")
EXTENSION = ROOT / "editor_clients" / "vscode"
VSIX = EXTENSION / "dist" / "efim-ls.vsix"
OPEN: list[Window] = []  # whose pictures a failed test leaves
# For what does not depend on the version of VS Code: each new window takes some ten seconds.
newest_only = pytest.mark.parametrize("installed", [servers.NEWEST], ids=lambda part: part.version, indirect=True)
Opening = Callable[..., Window]
WHOLE_LINES = 0.2  # a number for `suggestions`: ghost text is as much of the line as is that likely


def need(part: Part) -> Path:
    """Return a part's program; without it skip the test, or fail it if all parts are required."""
    try:
        return part.program_path()
    except Missing as reason:
        lacking(str(reason))


def lacking(reason: str) -> NoReturn:
    (pytest.fail if MUST_HAVE_ALL else pytest.skip)(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium for one module: playwright's loop must not run beside those of asynchronous tests."""
    program = need(CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def vsix() -> Path:
    """The extension, built from the current sources."""
    if not VSIX.exists():
        lacking(f"no {VSIX.relative_to(ROOT)}: run `make vsix`")
    sources = [EXTENSION / "package.json", *(EXTENSION / "src").rglob("*")]
    newer = [each.name for each in sources if each.stat().st_mtime > VSIX.stat().st_mtime]
    assert not newer, f"{newer} changed after the extension was built: run `make vsix`"
    return VSIX


@pytest.fixture(scope="module", params=servers.PARTS, ids=lambda part: part.version)
def installed(request: pytest.FixtureRequest, vsix: Path, tmp_path_factory: pytest.TempPathFactory):
    """A VS Code, and a folder of extensions with ours in it."""
    program, extensions = need(request.param), tmp_path_factory.mktemp("vscode") / "extensions"
    install(program, extensions, vsix)
    return program, extensions


@pytest.fixture(scope="module")
def shared(opened_in_module: Opening) -> Window:
    """A window that the tests of a module share, with the model loaded."""
    window = opened_in_module(suggestions=WHOLE_LINES)
    window.see_status("ready")
    return window


@pytest.fixture
def window(shared: Window) -> Window:
    """The shared window, with its file reset and the cursor at the end."""
    shared.show(SHAPES)
    return shared


@contextmanager
def opening(browser: Browser, installed: tuple[Path, Path], folder: Path) -> Iterator[Opening]:
    """Yield a function that opens a file in a new VS Code with the given settings."""
    with ExitStack() as stack:

        def open_file(name: str = "shapes.py", text: str = SHAPES, env: Any = (), **settings: Any) -> Window:
            file = folder / "project" / name
            file.parent.mkdir()
            file.write_text(text, "utf-8")
            ours = {vscode_name(name): value for name, value in settings.items()}
            code = stack.enter_context(running(*installed, folder / "home", ours, dict(env)))
            made = stack.enter_context(open_window(browser, code, file))
            OPEN.append(made)
            stack.callback(OPEN.remove, made)
            return made

        yield open_file


@pytest.fixture(scope="module")
def opened_in_module(browser: Browser, installed: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory):
    with opening(browser, installed, tmp_path_factory.mktemp("module")) as open_file:
        yield open_file


@pytest.fixture
def opened(browser: Browser, installed: tuple[Path, Path], tmp_path: Path):
    with opening(browser, installed, tmp_path) as open_file:
        yield open_file


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Save screenshots of the windows of a test that failed, or whose set-up did, and report their condition."""
    report = yield
    if report.failed:
        for each in OPEN:
            report.sections.append((f"window of {each.file.name}", each.condition()))
            each.picture(f"failed-{item.name}")
    return report
