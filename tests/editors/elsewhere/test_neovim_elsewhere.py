"""Neovim shows this machine's suggestion at once, and the better one of another machine when it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ..conftest import need
from ..drivers.neovim import RECORDER, SETUP, Neovim, neovim
from ..drivers.servers import PATIENT, for_neovim
from ..drivers.shapes import BEGUN, HEAD, REST, SHAPES
from ..fetching.neovim import NATIVE, OLDER
from ..fetching.part import Part
from .conftest import BETTER, Elsewhere

TELL_WHEN_TOLD = """
local client = vim.lsp.get_clients({ name = "efim_ls" })[1]
local handle = client.handlers["efim/didImproveSuggestion"]
client.handlers["efim/didImproveSuggestion"] = function(...)
  handle(...)
  _G.told = true
end
"""


@pytest.fixture(scope="module", params=(NATIVE, OLDER), ids=lambda part: part.key)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere
) -> Iterator[Neovim]:
    part: Part = request.param
    options = f"{for_neovim(PATIENT)}, settings = vim.json.decode([[{json.dumps(elsewhere.settings)}]])"
    with neovim(need(part), tmp_path_factory.mktemp(part.key), RECORDER + SETUP.replace("OPTIONS", options)) as made:
        yield made


@pytest.fixture
def editor(shared: Neovim, elsewhere: Elsewhere, request: pytest.FixtureRequest) -> Neovim:
    """A Neovim that shows what this machine suggests, while the other's answer is held back."""
    shared.edit(f"{request.node.name}.py", f"{SHAPES}{HEAD}    {BEGUN}")
    shared.ready()
    elsewhere.hold_back()
    shared.type("A")
    see_ghost(shared, REST)
    return shared


def see_ghost(editor: Neovim, text: str) -> None:
    editor.until(f"ghost text {text!r}", lambda: editor.ghosts == [text])


def test_a_better_suggestion_replaces_the_first_and_stays(editor: Neovim, elsewhere: Elsewhere) -> None:
    elsewhere.see_said()
    see_ghost(editor, BETTER)
    editor.lua("_G.drawn = {}")
    editor.type(*BETTER[:15])
    see_ghost(editor, BETTER[15:])
    assert lines_drawn(editor) == {f"    {BEGUN}{BETTER}"}


def test_what_was_typed_through_stays(editor: Neovim, elsewhere: Elsewhere) -> None:
    editor.type(*REST[:3])
    see_ghost(editor, REST[3:])
    editor.lua("_G.drawn = {}")
    elsewhere.see_said()
    for typed in range(3, 15):
        editor.type(REST[typed])
        editor.request("efim/explain", position={"line": 0, "character": 0})  # which is answered after the key
        see_ghost(editor, REST[typed + 1 :])
    assert lines_drawn(editor) == {f"    {BEGUN}{REST}"}


def test_what_was_dismissed_does_not_come_back(editor: Neovim, elsewhere: Elsewhere) -> None:
    editor.lua(TELL_WHEN_TOLD)
    editor.lua("require('efim_ls').dismiss()")
    elsewhere.see_said()
    editor.until("word of a better suggestion", lambda: editor.lua("return _G.told"))
    editor.request(
        "efim/explain", position={"line": 0, "character": 0}
    )  # which is answered after what is asked again
    assert editor.ghosts == []


def lines_drawn(editor: Neovim) -> set[str]:
    """Return each line, with its ghost text, that was on the screen since the record was emptied."""
    return {each["line"] + "".join(each["ghosts"]) for each in editor.lua("return _G.drawn")}
