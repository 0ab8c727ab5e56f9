"""What `:Efim explain` shows in a real Neovim, and what can be done from there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from efim_ls.completion.suggestions.explanation_page import sections
from tests.explanations import EXPLAINED, word

from ..conftest import need
from ..drivers.neovim import RECORDER, SETUP, Neovim, neovim
from ..drivers.shapes import BEGINNING, NEXT_PART, OPEN_ENDED, SHAPES
from ..fetching.neovim import NATIVE, OLDER
from ..fetching.part import ROOT, Part

EXPLAIN = ":Efim explain<CR>"
ROW, COLUMN = f"{SHAPES}{OPEN_ENDED}".count("\n") + 1, len(OPEN_ENDED.rpartition("\n")[2])
GOLDEN = ROOT / "tests" / "golden" / "clients" / "neovim_explain.txt"
SHOW = """
local sections = ...
require("efim_ls.explain").show(vim.json.decode(sections), vim.api.nvim_get_current_win())
"""
FOLDED = """
local window, line = ...
return vim.api.nvim_win_call(window, function()
  return vim.fn.foldclosed(line)
end)
"""
MARKS = """
local page, found = require("efim_ls.page"), {}
local buf = vim.fn.bufnr("efim-ls://explain")
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buf, page.namespace, 0, -1, { details = true })) do
  local text = vim.api.nvim_buf_get_text(buf, mark[2], mark[3], mark[4].end_row or mark[2], mark[4].end_col, {})
  table.insert(found, { text[1], mark[4].hl_group })
end
return found
"""


def drawn(path: str) -> str:
    """An explanation that names a file."""
    said = word("area", 0.75, (0.1, 0.2, 0.7), (path, 2), ("/usr/lib/ring.py", 3))
    suggestion = EXPLAINED["suggestion"] | {"shown": "area", "words": [said, *EXPLAINED["suggestion"]["words"][-2:]]}
    return json.dumps(sections(EXPLAINED | {"suggestion": suggestion}, "file:///a.py", 3, 5))


@pytest.fixture(scope="module", params=(NATIVE, OLDER), ids=lambda part: part.key)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neovim]:
    """One Neovim and one server for all of these tests: each opens a file of its own."""
    part: Part = request.param
    folder = tmp_path_factory.mktemp(part.key)
    options = 'keys = { explain = "<F5>" }, '
    options += 'settings = { disabled_files = { "*.sql" }, suggestions = 0.2 }'
    with neovim(need(part), folder, RECORDER + SETUP.replace("OPTIONS", options)) as editor:
        yield editor


@pytest.fixture
def editor(shared: Neovim, request: pytest.FixtureRequest) -> Neovim:
    shared.api.command("only")
    shared.edit(f"{request.node.name}.py", SHAPES + OPEN_ENDED[:-1])
    shared.ready()
    return shared


@pytest.fixture
def named(editor: Neovim) -> Path:
    """A file that an explanation names, in a folder of its own; the cursor stands on its name."""
    path = editor.folder / "vendored" / "ring.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("import os\narea = 1\n", "utf-8")
    editor.lua(SHOW, drawn(str(path)))
    editor.type("<C-w>j", "gg", "/ring.py:2<CR>")
    editor.until("the place", lambda: "ring.py:2" in editor.api.current.line)
    return path


def test_the_page_tells_costs_and_speakers_in_words(editor: Neovim) -> None:
    editor.lua(SHOW, drawn("/home/me/shapes.py"))
    assert editor.explanation + "\n" == GOLDEN.read_text("utf-8")


def test_the_whole_prompt_with_its_markers_is_folded(editor: Neovim) -> None:
    editor.lua(SHOW, drawn("/shapes.py"))
    closed = [each for each in editor.explanation.split("\n") if "<|fim_" in each]
    [window] = [each for each in editor.api.windows if each.buffer.name == "efim-ls://explain"]
    for line in closed:
        number = window.buffer[:].index(line) + 1
        assert editor.lua(FOLDED, window.handle, number) != -1
    assert len(closed) == 3 and editor.lua(FOLDED, window.handle, 1) == -1


def test_the_page_tells_them_in_colours_as_well(editor: Neovim) -> None:
    editor.lua(SHOW, drawn("/home/me/shapes.py"))
    marks = {tuple(each) for each in editor.lua(MARKS)}
    costs = {
        ("import os", "EfimKept"), ("def edge(shape):", "EfimAhead"), ("print(edge(shape))", "EfimDisk"),
        ("    return ", "EfimRecomputed"),
    }  # fmt: skip
    said = {("area", "EfimRepository"), (" *", "EfimHidden"), ("/home/me/shapes.py:2", "EfimSource")}
    assert costs | said <= marks


def test_what_is_hidden_is_shown_in_a_real_session(editor: Neovim) -> None:
    editor.type("A", OPEN_ENDED[-1])
    assert editor.ghost().startswith(BEGINNING)
    editor.run("Efim explain")
    editor.until("the explanation", lambda: BEGINNING in editor.explanation)
    shown = editor.explanation
    assert re.search(r"\nThe answer here computed \d+ tokens?, reused \d+, and took ", shown), shown
    assert re.search(r"\ners +\d+% ", shown), shown
    _, _, hidden = shown.partition("\nhidden:\n")
    assert re.search(rf"^{re.escape(NEXT_PART.split()[0][0])} +\d+% ", hidden), shown
    assert editor.api.current.line == OPEN_ENDED.rpartition("\n")[2], "the cursor stays where it is"
    editor.type("<Esc>")


@pytest.mark.parametrize(
    "keys",
    [f"<Esc>{EXPLAIN}", f"<C-o>{EXPLAIN}", "<F5>", "<Esc><F5>"],
    ids=["left", "for-a-command", "key", "left-key"],
)
def test_the_place_where_insert_mode_ended_is_explained(editor: Neovim, keys: str) -> None:
    editor.type("A", OPEN_ENDED[-1])
    editor.ghost()
    editor.type(keys)
    editor.until("the explanation", lambda: f".py:{ROW}:{COLUMN + 1}\n" in editor.explanation)
    assert "\nThis was suggested here." in editor.explanation
    editor.type("<Esc>")


def test_a_place_that_the_user_has_gone_to_is_explained_as_it_is(editor: Neovim) -> None:
    editor.type("A", OPEN_ENDED[-1], "<Esc>", "h", "l", EXPLAIN)
    editor.until("the explanation", lambda: f".py:{ROW}:{COLUMN}\n" in editor.explanation)
    editor.type("A", ".", "<Esc>", "rx", EXPLAIN)
    editor.until("that of a text that has changed", lambda: f".py:{ROW}:{COLUMN + 1}\n" in editor.explanation)


@pytest.mark.parametrize("key", ["<CR>", "gf"])
def test_a_place_is_opened_in_the_window_that_was_explained(editor: Neovim, named: Path, key: str) -> None:
    editor.type(key)
    editor.until("the file", lambda: Path(editor.api.current.buffer.name) == named)
    assert editor.api.current.window.cursor[0] == 2
    assert editor.explanation, "the page stays"


def test_nothing_is_taken_any_more_from_a_folder(editor: Neovim, named: Path) -> None:
    editor.type("x")
    editor.until("a notice", lambda: f"nothing is taken from {named.parent}" in editor.notices)
    assert f'add "{named.parent}" to disabled_files' in editor.notices
    chosen = editor.told("workspace/didChangeConfiguration")[-1]["settings"]["efim-ls"]
    assert chosen["disabled_files"] == ["*.sql", str(named.parent)]
    editor.type("<CR>")
    editor.until("the file", lambda: Path(editor.api.current.buffer.name) == named)
    editor.until("a server", editor.served)
    assert editor.request("efim/explain", position={"line": 0, "character": 0})["reason"] == "file off"


def test_the_memory_is_switched_off_and_on(editor: Neovim, named: Path) -> None:
    for key, state in (("m", "off"), (":Efim repository<CR>", "auto")):
        editor.type(key)
        editor.until("what was chosen", lambda state=state: told_repository(editor) == state)


def told_repository(editor: Neovim) -> str | None:
    told = editor.told("workspace/didChangeConfiguration")
    return told[-1]["settings"]["efim-ls"].get("other_files") if told else None


def test_it_explains_again_and_closes(editor: Neovim, named: Path) -> None:
    editor.type("R")
    editor.until("another explanation", lambda: "a.py:3:5" not in editor.explanation)
    assert "Suggestion at test_it_explains_again_and_closes" in editor.explanation
    editor.type("q")
    editor.until("its end", lambda: not editor.explanation)


def test_leaving_out_needs_a_place(editor: Neovim) -> None:
    editor.lua("_G.notices = {}")
    editor.api.command("Efim leave-out")
    assert "put the cursor on a place that :Efim explain names" in editor.notices
