"""What *Install or Update the Server* does: real pip, the wheel that came with the extension, and what it says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from playwright.sync_api import Locator

from tests.waiting import eventually

from .conftest import WHOLE_LINES, Opening, newest_only
from .drivers.machine import BARE, Machine
from .drivers.shapes import BEGUN, HEAD, REST
from .drivers.shelf import served, stub
from .drivers.window import Window
from .drivers.workbench import Workbench

pytestmark = newest_only  # pip does the same in all of them
TORCH = ("torch", "nvidia")
READY = "efim-ls is ready. Grey text is a suggestion; Tab accepts it."


def asked_to_install(window: Window) -> Locator:
    """Press *Install*, and return the question that is asked before anything is fetched."""
    window.see_message("efim-ls needs its server").get_by_role("button", name="Install").click()
    dialog = window.page.locator(".monaco-dialog-box")
    dialog.wait_for()
    assert "Install the efim-ls server?" in dialog.inner_text()
    return dialog


def failure(window: Window, text: str) -> Locator:
    found = window.page.locator(".notification-list-item", has_text="Could not install the server: ")
    found = found.filter(has_text=text).first
    found.wait_for()
    return found


def press(dialog: Locator, button: str) -> None:
    dialog.get_by_role("button", name=button, exact=True).click()


def test_a_python_without_venv_is_told_what_is_missing(opened: Opening, machine: Machine):
    """What Debian's Python says and leaves where its package for environments is not installed."""
    shutil.rmtree(machine.own_environment, ignore_errors=True)
    said = r"The virtual environment was not created successfully.\n\n    apt install python3.11-venv\n"
    leaves = f'"{BARE}" -m venv --without-pip "$4"'
    machine.put_program("python3", f"[ \"$1\" = -c ] || {{ {leaves}; printf '{said}'; exit 1; }}")
    window = opened(python="")
    window.see_status("no server", "efim-ls needs its server")
    window.command("efim-ls: Install or Update the Server")
    failure(window, "creating a Python environment failed: Python cannot make environments. Install python3.11-venv")
    assert machine.find_installed(".") and not machine.find_installed("pip")
    machine.put_program("python3", f'exec "{BARE}" "$@"')
    machine.have_packages_but("pip", *TORCH)
    window.command("efim-ls: Install or Update the Server")
    dialog = window.page.locator(".monaco-dialog-box")
    dialog.wait_for()
    press(dialog, "Cancel")
    dialog.wait_for(state="detached")
    assert machine.find_installed("pip")


def test_it_installs_the_wheel_that_came_with_the_extension_and_then_what_a_named_model_needs(
    opened: Opening, workbench: Workbench, machine: Machine
):
    """Without torch, which is not asked for where the compiled decoder runs."""
    shutil.rmtree(machine.own_environment, ignore_errors=True)
    machine.have_packages_but("huggingface_hub", "pip", *TORCH)
    window = opened(python="", suggestions=WHOLE_LINES)
    dialog = asked_to_install(window)
    assert (
        "The server comes with this extension. All packages that it needs are there already." in dialog.inner_text()
    )
    window.see_status("working", "The server of efim-ls: waiting for your answer.")
    assert not window.is_coloured
    press(dialog, "Install")
    eventually(lambda: "ready" in window.status, lambda: f"the status is {window.status!r}")
    assert window.see_message("efim-ls is ready").inner_text() == READY
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    names = {each.name for each in machine.find_installed("*")}
    assert {"efim_ls", "model_runtime"} <= names and not {"tests", "pip", "setuptools"} & names
    assert machine.find_installed("model_runtime/decoder/native/_native.so")
    assert machine.find_installed("efim_ls/http") and not machine.find_installed("efim_ls/http/__pycache__")
    stub(machine.shelf, "huggingface_hub", version("huggingface_hub"))
    workbench.apply({**workbench.settings, "efim-ls.model": "nobody/nothing"})
    see_what_a_named_model_needs_installed(window, machine)


def see_what_a_named_model_needs_installed(window: Window, machine: Machine) -> None:
    """Install by the button of a message, and wait until that has ended."""
    message = window.see_message("whose client is not installed")
    message.get_by_role("button", name="Install huggingface_hub").click()
    dialog = window.page.locator(".monaco-dialog-box", has_text="Install huggingface_hub?")
    dialog.wait_for()
    assert "pip fetches 1 small package." in dialog.inner_text()
    press(dialog, "Install")
    eventually(lambda: machine.find_installed("huggingface_hub-*.dist-info/RECORD"), lambda: "not installed")
    eventually(lambda: not window.status.startswith("efim-ls: working"), lambda: window.status)
    assert not machine.find_installed("pip*")


def test_what_has_to_be_fetched_is_told_first(opened: Opening, machine: Machine):
    stub(machine.shelf, "xxhash", version("xxhash"))
    machine.have_packages_but("xxhash", *TORCH)
    window = opened(python="")
    dialog = asked_to_install(window)
    told = dialog.inner_text()
    assert "pip fetches 1 small package that" in told and "to download" in told and "on disk" in told
    assert str(machine.own_environment) in told
    window.picture("install")
    press(dialog, "Cancel")
    dialog.wait_for(state="detached")
    assert not machine.installed
    window.see_status("no server", "efim-ls needs its server")


def test_nothing_is_said_to_be_fetched_before_the_answer(opened: Opening, machine: Machine, tmp_path: Path):
    """An index without metadata, from which pip fetches packages to learn what they need."""
    wheel = stub(tmp_path, "xxhash", version("xxhash"))
    machine.have_packages_but("xxhash", *TORCH)
    with served(tmp_path) as index:
        (machine.shelf / "index.html").write_text(f'<a href="{index.address}{wheel.name}">{wheel.name}</a>', "utf-8")
        window = opened(python="")
        dialog = asked_to_install(window)
        assert index.fetched == [wheel.name]
        window.picture("asked")
        window.see_message("The server of efim-ls: waiting for your answer")
        press(dialog, "Cancel")


@pytest.fixture
def wheels(installed: tuple[Path, Path]) -> Iterator[Path]:
    """The folder with the wheels of the installed extension, which a test may change."""
    [folder] = installed[1].glob("efim-ls.*/dist/server")
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    yield folder
    shutil.rmtree(folder)
    kept.rename(folder)


@pytest.fixture
def keeps_what_is_not_needed(wheels: Path) -> Iterator[None]:
    """Let removing what the server does not need fail."""
    program = wheels.parents[1] / "slim.py"
    kept = program.rename(program.with_name("kept.py"))
    program.write_text("raise SystemExit('the disk is read-only')", "utf-8")
    yield
    kept.replace(program)


@pytest.mark.usefixtures("keeps_what_is_not_needed")
def test_torch_is_asked_for_where_the_compiled_decoder_does_not_run(opened: Opening, machine: Machine, wheels: Path):
    """A registry that has PyTorch for GPUs only, as a plain pip on Linux sees it: another way is told."""
    sums = wheels / "SHA256SUMS"  # without the wheel of a server that is compiled for this machine
    lines = sums.read_text("utf-8").splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if "-any.whl" in line), "utf-8")
    stub(machine.shelf, "torch", "2.13.0", "nvidia-cublas")
    stub(machine.shelf, "nvidia_cublas", "13.1.1.3")
    machine.have_packages_but(*TORCH)
    window = opened(python="")
    press(asked_to_install(window), "Install")
    see_torch_declined(window, machine)
    message = window.see_message("the compiled decoder cannot be used")  # by the server, which runs now
    window.picture("install-torch")
    message.get_by_role("button", name="Install torch").click()
    see_torch_declined(window, machine)
    assert machine.find_installed("efim_ls") and machine.find_installed("pip")


def see_torch_declined(window: Window, machine: Machine) -> None:
    dialog = window.page.locator(".monaco-dialog-box", has_text="Install torch?")
    dialog.wait_for()
    told = dialog.inner_text()
    assert "The server says: the compiled decoder cannot be used (" in told and "pip install" not in told
    assert "PyTorch for GPUs only" in told and "uv" in told and "to download" in told and "on disk" in told
    assert str(machine.own_environment) in told
    press(dialog, "Cancel")
    dialog.wait_for(state="detached")


def test_a_failure_says_what_failed_and_shows_the_log(opened: Opening):
    window = opened(python="")
    window.see_message("efim-ls needs its server").get_by_role("button", name="Install").click()
    message = failure(window, "failed: your package index has nothing that fits: anyio.")
    window.picture("install-failed")
    message.get_by_role("button", name="Show Log").press("Enter")
    panel = window.page.locator(".part.panel")  # empty here: this VS Code is without the module that writes logs
    panel.get_by_text("Output").first.wait_for()
    eventually(lambda: "efim-ls" in panel.inner_text(), panel.inner_text)


def test_a_damaged_wheel_is_refused(opened: Opening, machine: Machine, wheels: Path):
    """One bit is wrong in the wheel for this machine."""
    [wheel] = wheels.glob("*manylinux*.whl")
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    wheel.write_bytes(content)
    window = opened(python="")
    window.see_status("no server", "efim-ls needs its server")
    window.command("efim-ls: Install or Update the Server")
    failure(window, "manylinux_2_28_x86_64.whl, which came with the extension, is damaged or missing.")
    assert not machine.installed
