"""What *Install or Update the Server* does: real pip, the wheel that came with the extension, and what it says."""

from __future__ import annotations

import os
import shutil
import sysconfig
from importlib.metadata import version
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, TimeoutError

from tests.waiting import HANG, eventually

from .conftest import WHOLE_LINES, Opening, newest_only, opening
from .drivers.shapes import BEGUN, HEAD, REST
from .drivers.shelf import served, stub
from .drivers.vscode import PYTHON
from .drivers.window import Window

pytestmark = newest_only  # pip does the same in all of them
BARE = f"{Path(os.path.realpath(PYTHON)).parent}{os.pathsep}/usr/bin:/bin"  # Python, and no server
BUSY = 10_000  # milliseconds
OFFLINE = {"PATH": BARE, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
TORCH = ("torch", "nvidia")
OWN_ENVIRONMENT = Path("home/data/User/globalStorage/efim-ls.efim-ls/server")


def dependencies(folder: Path, *but: str) -> dict[str, str]:
    """Return an environment in which all that the server needs is installed, save these packages and the server."""
    folder.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("__editable__", "efim_ls", *but)):
            (folder / path.name).symlink_to(path)
    return {"PYTHONPATH": str(folder)}


def asked_to_install(window: Window) -> Locator:
    """Press *Install*, and return the question that is asked before anything is fetched."""
    window.see_message("efim-ls needs its server").get_by_role("button", name="Install").click()
    dialog = window.page.locator(".monaco-dialog-box")
    dialog.wait_for(timeout=1000 * HANG)
    assert "Install the efim-ls server?" in dialog.inner_text()
    return dialog


def failure(window: Window, text: str) -> Locator:
    found = window.page.locator(".notification-list-item", has_text="Could not install the server: ")
    found = found.filter(has_text=text).first
    found.wait_for(timeout=1000 * HANG)
    return found


def press(dialog: Locator, button: str) -> None:
    dialog.get_by_role("button", name=button, exact=True).click()


def test_it_installs_the_wheel_that_came_with_the_extension(opened: Opening, tmp_path: Path):
    """Without torch, which is not asked for where the compiled decoder runs."""
    packages = dependencies(tmp_path / "packages", *TORCH)
    window = opened(python="", env=OFFLINE | packages, suggestions=WHOLE_LINES)
    dialog = asked_to_install(window)
    assert (
        "The server comes with this extension. All packages that it needs are there already." in dialog.inner_text()
    )
    window.see_status("working", "The server of efim-ls: waiting for your answer.")
    assert not window.is_coloured
    press(dialog, "Install")
    eventually(lambda: "ready" in window.status, lambda: f"the status is {window.status!r}")
    assert window.see_message("efim-ls is ready").inner_text() == "efim-ls is ready: type, Tab takes it"
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    [compiled] = (tmp_path / OWN_ENVIRONMENT).glob(
        "lib/python*/site-packages/model_runtime/decoder/native/_native.so"
    )
    assert not (compiled.parents[3] / "tests").exists()


def test_what_has_to_be_fetched_is_told_first(opened: Opening, tmp_path: Path):
    (shelf := tmp_path / "shelf").mkdir()
    stub(shelf, "xxhash", version("xxhash"))
    lacking = dependencies(tmp_path / "packages", "xxhash", *TORCH)
    window = opened(python="", env=OFFLINE | lacking | {"PIP_FIND_LINKS": str(shelf)})
    dialog = asked_to_install(window)
    told = dialog.inner_text()
    assert "pip fetches 1 small package that" in told and "to download" in told and "on disk" in told
    assert str(tmp_path / OWN_ENVIRONMENT) in told
    window.picture("install")
    press(dialog, "Cancel")
    dialog.wait_for(state="detached")
    assert not list((tmp_path / OWN_ENVIRONMENT).glob("lib/python*/site-packages/efim_ls"))
    window.see_status("no server", "efim-ls needs its server")


def test_nothing_is_said_to_be_fetched_before_the_answer(opened: Opening, tmp_path: Path):
    """An index without metadata, from which pip fetches packages to learn what they need."""
    (shelf := tmp_path / "shelf").mkdir()
    wheel = stub(shelf, "xxhash", version("xxhash"))
    lacking = dependencies(tmp_path / "packages", "xxhash", *TORCH)
    with served(shelf) as index:
        window = opened(python="", env=OFFLINE | lacking | {"PIP_FIND_LINKS": index.address})
        dialog = asked_to_install(window)
        assert index.fetched == [wheel.name]
        window.picture("asked")
        window.see_message("The server of efim-ls: waiting for your answer")
        press(dialog, "Cancel")


@pytest.fixture
def copied(installed: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A VS Code, and a folder with our extension in it that a test may change."""
    program, extensions = installed
    return program, shutil.copytree(extensions, tmp_path / "extensions")


@pytest.fixture
def pure(copied: tuple[Path, Path]) -> tuple[Path, Path]:
    """Our extension, with the server's wheel for machines for which nothing is compiled, and no other."""
    [sums] = copied[1].glob("efim-ls.*/dist/server/SHA256SUMS")
    lines = sums.read_text("utf-8").splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if "-any.whl" in line), "utf-8")
    return copied


def test_torch_is_asked_for_where_the_compiled_decoder_does_not_run(
    browser: Browser, pure: tuple[Path, Path], tmp_path: Path
):
    """A registry that has PyTorch for GPUs only, as a plain pip on Linux sees it: another way is told."""
    (shelf := tmp_path / "shelf").mkdir()
    stub(shelf, "torch", "2.13.0", "nvidia-cublas")
    stub(shelf, "nvidia_cublas", "13.1.1.3")
    env = OFFLINE | dependencies(tmp_path / "packages", *TORCH) | {"PIP_FIND_LINKS": str(shelf)}
    with opening(browser, pure, tmp_path) as opened:
        window = opened(python="", env=env)
        press(asked_to_install(window), "Install")
        see_torch_declined(window, tmp_path)
        message = window.see_message("the compiled decoder cannot be used")  # by the server, which runs now
        window.picture("install-torch")
        message.get_by_role("button", name="Install torch").click()
        see_torch_declined(window, tmp_path)
        assert list((tmp_path / OWN_ENVIRONMENT).glob("lib/python*/site-packages/efim_ls"))


def see_torch_declined(window: Window, folder: Path) -> None:
    dialog = window.page.locator(".monaco-dialog-box", has_text="Install torch?")
    dialog.wait_for(timeout=1000 * HANG)
    told = dialog.inner_text()
    assert "The server says: the compiled decoder cannot be used (" in told and "pip install" not in told
    assert "PyTorch for GPUs only" in told and "uv" in told and "to download" in told and "on disk" in told
    assert str(folder / OWN_ENVIRONMENT) in told
    press(dialog, "Cancel")
    dialog.wait_for(state="detached")


def test_what_a_named_model_needs_is_installed_by_a_button(opened: Opening, tmp_path: Path):
    (shelf := tmp_path / "shelf").mkdir()
    stub(shelf, "huggingface_hub", version("huggingface_hub"))
    lacking = dependencies(tmp_path / "packages", "huggingface_hub", *TORCH)
    window = opened(python="", model="nobody/nothing", env=OFFLINE | lacking | {"PIP_FIND_LINKS": str(shelf)})
    press(asked_to_install(window), "Install")
    message = window.see_message("whose client is not installed")
    message.get_by_role("button", name="Install huggingface_hub").click()
    dialog = window.page.locator(".monaco-dialog-box", has_text="Install huggingface_hub?")
    dialog.wait_for(timeout=1000 * HANG)
    assert "pip fetches 1 small package." in dialog.inner_text()
    press(dialog, "Install")
    installed = "lib/python*/site-packages/huggingface_hub-*.dist-info/RECORD"
    eventually(lambda: list((tmp_path / OWN_ENVIRONMENT).glob(installed)), lambda: "not installed")


def test_a_failure_says_what_failed_and_shows_the_log(opened: Opening, tmp_path: Path):
    window = opened(python="", env=OFFLINE | {"PIP_FIND_LINKS": str(tmp_path)})
    window.see_message("efim-ls needs its server").get_by_role("button", name="Install").click()
    message = failure(window, "failed: your package index has nothing that fits: anyio.")
    window.picture("install-failed")
    message.get_by_role("button", name="Show Log").press("Enter")
    panel = window.page.locator(".part.panel")  # empty here: this VS Code is without the module that writes logs
    try:
        panel.get_by_text("Output").first.wait_for(timeout=BUSY)
    except TimeoutError:  # without that module it does not show, on a busy machine, what it has not yet registered
        window.command("efim-ls: Show Log")
        panel.get_by_text("Output").first.wait_for()
    eventually(lambda: "efim-ls" in panel.inner_text(), panel.inner_text)


def test_a_python_without_venv_is_told_what_is_missing(opened: Opening, tmp_path: Path):
    """What Debian's Python says where its package for environments is not installed."""
    python = tmp_path / "debian" / "python3"
    python.parent.mkdir()
    said = r"The virtual environment was not created successfully.\n\n    apt install python3.11-venv\n"
    python.write_text(f"#!/bin/sh\n[ \"$1\" = -c ] || {{ printf '{said}'; exit 1; }}\n", "utf-8")
    python.chmod(0o755)
    window = opened(python="", env={"PATH": f"{python.parent}{os.pathsep}/usr/bin:/bin"})
    window.see_status("no server", "efim-ls needs its server")
    window.command("efim-ls: Install or Update the Server")
    failure(window, "creating a Python environment failed: Python cannot make environments. Install python3.11-venv")


@pytest.fixture
def damaged(copied: tuple[Path, Path]) -> tuple[Path, Path]:
    """Our extension, in whose wheel for this machine one bit is wrong."""
    [wheel] = copied[1].glob("efim-ls.*/dist/server/*manylinux*.whl")
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    wheel.write_bytes(content)
    return copied


def test_a_damaged_wheel_is_refused(browser: Browser, damaged: tuple[Path, Path], tmp_path: Path):
    with opening(browser, damaged, tmp_path) as opened:
        window = opened(python="", env=OFFLINE)
        window.see_status("no server", "efim-ls needs its server")
        window.command("efim-ls: Install or Update the Server")
        failure(window, "manylinux_2_28_x86_64.whl, which came with the extension, is damaged or missing.")
        assert not (tmp_path / OWN_ENVIRONMENT).exists()
