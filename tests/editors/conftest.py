"""What editor tests share: the parts that were fetched, a browser, and windows of VS Code."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from efim_lab.gate.reference.settings import vscode_name
from tests.processes import daemons

from .drivers.machine import Machine
from .drivers.shapes import SHAPES
from .drivers.vscode import install
from .drivers.window import CHROMIUM as QUIET
from .drivers.window import Window
from .drivers.workbench import Windows, Workbench
from .fetching import vscode as servers
from .fetching.part import ROOT, Missing, Part
from .fetching.programs import CHROMIUM

MUST_HAVE_ALL = bool(os.environ.get("CI")) and (sys.platform, platform.machine()) == ("linux", "x86_64")
EXTENSION = ROOT / "editor_clients" / "vscode"
VSIX = EXTENSION / "dist" / "efim-ls.vsix"
WINDOWS = pytest.StashKey[Windows]()
# For what does not depend on the version of VS Code.
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


@pytest.fixture(scope="session", autouse=True)
def no_daemon_stays() -> Iterator[None]:
    """Let the daemon go on from file to file: no file's clients ask for more models than another's."""
    yield
    daemons.stop_all()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium. Playwright's loop, once begun, must not run beside that of a Neovim or an asynchronous test."""
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


@pytest.fixture(scope="session", params=servers.PARTS, ids=lambda part: part.version)
def installed(request: pytest.FixtureRequest, vsix: Path, tmp_path_factory: pytest.TempPathFactory):
    """A VS Code, and a folder of extensions with ours in it."""
    program, extensions = need(request.param), tmp_path_factory.mktemp("vscode") / "extensions"
    install(program, extensions, vsix)
    return program, extensions


@pytest.fixture(scope="session")
def windows(request: pytest.FixtureRequest) -> Iterator[Windows]:
    """The window that is open, and how to open another one."""
    windows = request.config.stash[WINDOWS] = Windows()
    yield windows
    windows.close()


@pytest.fixture
def workbench(
    browser: Browser, installed: tuple[Path, Path], windows: Windows, tmp_path_factory: pytest.TempPathFactory
) -> Workbench:
    """The window of this VS Code, in which nothing is open and the settings are the user's."""
    return windows.open(browser, installed, lambda: tmp_path_factory.mktemp("window"))


@pytest.fixture
def machine(workbench: Workbench) -> Machine:
    """What the extension finds on its machine."""
    return workbench.machine


@pytest.fixture
def opened(workbench: Workbench) -> Opening:
    """A function that opens a file in a workspace of its own, with the given settings and a new server."""

    def open_file(
        name: str = "shapes.py",
        text: str = SHAPES,
        beside: Mapping[str, str] = {},
        keep_server: bool = False,
        **settings: Any,
    ) -> Window:
        ours = {vscode_name(name): value for name, value in settings.items()}
        return workbench.begin({name: text, **beside}, ours, keep_server)

    return open_file


@pytest.fixture
def window(opened: Opening) -> Window:
    """A window whose server is ready."""
    window = opened(suggestions=WHOLE_LINES)
    window.see_status("ready")
    return window


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what drives a window, which runs with nothing beside it."""
    assert isinstance(item, pytest.Function)
    if "browser" in item.fixturenames:
        item.add_marker("window")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs no window first, then VS Code by VS Code: the window for Mocha, then the other."""
    items.sort(key=place)


def place(item: pytest.Item) -> tuple[bool, str, bool]:
    """Return the key to sort a test by; tests of other folders, which pytest passes as well, keep their order."""
    if not item.get_closest_marker("window"):
        return False, "", False
    assert isinstance(item, pytest.Function)
    code = cast("Part", item.callspec.params["installed"]).version if "installed" in item.fixturenames else ""
    return True, code, "workbench" in item.fixturenames


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Report the condition of the window of a test that failed, with a picture; close it, so that the next is new."""
    report = yield
    windows = item.config.stash.get(WINDOWS, None)
    if report.failed and windows and windows.workbench:
        window = windows.workbench.window
        with suppress(PlaywrightError):  # a browser that has died can show nothing
            report.sections.append((f"window of {item.name}", window.condition()))
            window.picture(f"failed-{item.name}")
        with suppress(PlaywrightError):
            windows.close()
    return report
