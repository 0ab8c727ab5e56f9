"""VS Code shows this machine's suggestion at once, and the better one of another machine when it comes."""

from __future__ import annotations

import pytest

from ..conftest import Opening
from ..drivers.servers import PATIENT, for_vscode
from ..drivers.shapes import BEGUN, HEAD, REST
from ..drivers.window import Window
from .conftest import BETTER, Elsewhere


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python whose server is patient."""
    return for_vscode(PATIENT, tmp_path_factory.mktemp("python") / "python")


@pytest.fixture
def begun(opened: Opening, elsewhere: Elsewhere, python: str) -> Window:
    """A window that shows what this machine suggests, while the other's answer is held back."""
    window = opened(python=python, **elsewhere.settings)
    window.see_status("ready")
    elsewhere.hold_back()
    window.page.keyboard.insert_text(HEAD + BEGUN)  # nothing is typed through
    window.see_ghost(REST)
    return window


def test_a_better_suggestion_replaces_the_first_and_stays(begun: Window, elsewhere: Elsewhere) -> None:
    elsewhere.see_said()
    begun.see_ghost(BETTER)
    begun.picture("better")
    begun.watch()
    begun.type(BETTER[:15])
    begun.see_ghost(BETTER[15:])
    assert {line + ghost for line, ghost in begun.watched()} == {f"    {BEGUN}{BETTER}"}
    begun.press("Tab")
    begun.see_line(f"    {BEGUN}{BETTER}")


def test_what_was_typed_through_stays(begun: Window, elsewhere: Elsewhere) -> None:
    begun.type(REST[:3])
    begun.see_ghost(REST[3:])
    begun.watch()
    elsewhere.see_said()
    for typed in range(3, 15):
        begun.type(REST[typed])
        begun.see_ghost(REST[typed + 1 :])
    # If the better one comes before the extension has heard of the last key, it hides the ghost text for a frame.
    assert {line + ghost for line, ghost in begun.watched() if ghost} == {f"    {BEGUN}{REST}"}
