"""What `:Efim explain` shows in a real Neovim, and what can be done from there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.explanations import part, word

from ..conftest import need
from ..drivers.neovim import RECORDER, SETUP, Neovim, neovim
from ..drivers.shapes import BEGINNING, NEXT_PART, OPEN_ENDED, SHAPES
from ..fetching.neovim import NATIVE, OLDER
from ..fetching.part import ROOT, Part

EXPLAIN = ":Efim explain<CR>"
ROW, COLUMN = f"{SHAPES}{OPEN_ENDED}".count("\n") + 1, len(OPEN_ENDED.rpartition("\n")[2])
GOLDEN = ROOT / "tests" / "golden" / "clients" / "neovim_explain.txt"
SHOW = """
local explained, title = ...
require("efim_ls.explain").show(vim.json.decode(explained), title, vim.api.nvim_get_current_win())
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


def explained(path: str) -> dict[str, Any]:
    return {
        "parts": [
            part("marker", "<|fim_prefix|>", 1, "kept"),
            part("head", "import os\n\n", 9, "kept"),
            part("head", "x = 1\n", 4, "ahead"),
            part("marker", "<|fim_suffix|>", 1, "disk"),
            part("tail", "print(x)\n", 4, "disk"),
            part("marker", "<|fim_middle|>", 1, "recomputed"),
            part("typed", "y = ", 3, "recomputed"),
        ],
        "rest": ")",
        "reason": None,
        "why": None,
        "notice": None,
        "spent": {},
        "costs": {},
        "suggestion": {
            "shown": "area(ring",
            "hidden": ")\n",
            "words": [
                word("area", 0.75, (0.1, 0.2, 0.7), (path, 2), ("/usr/lib/ring.py", 3)),
                word("(", 1.0, (1.0, 0.0, 0.0)),
                word("ring", 0.5, (0.25, 0.75, 0.0)),
                word(")", 0.125),
                word("\n", 0.05),
            ],
        },
    }


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
    editor.lua(SHOW, json.dumps(explained(str(path))), "a.py:3:5")
    editor.type("<C-w>j", "gg", "/ring.py:2<CR>")
    editor.until("the place", lambda: "ring.py:2" in editor.api.current.line)
    return path


def test_the_page_tells_costs_and_speakers_in_words(editor: Neovim) -> None:
    editor.lua(SHOW, json.dumps(explained("/home/me/shapes.py")), "a.py:3:5")
    assert editor.explanation + "\n" == GOLDEN.read_text("utf-8")


def test_the_page_begins_with_the_answer_even_where_it_is_hidden(editor: Neovim) -> None:
    hidden = {"shown": "", "hidden": "area", "words": [word("area", 0.125)]}
    unlikely = explained("/shapes.py") | {"why": "the model is only 12% sure", "suggestion": hidden}
    editor.lua(SHOW, json.dumps(unlikely), "a.py:3:5")
    begun = (
        "efim-ls at a.py:3:5\n\nWhat would have been suggested\narea\n\nNo suggestion: the model is only 12% sure\n"
    )
    assert editor.explanation.startswith(begun)


def test_the_page_says_where_a_word_is_from_that_the_model_has_not_guessed(editor: Neovim) -> None:
    words = [word("iffer", 0.75, source="from csv in the standard library")]
    told = {**explained("/shapes.py"), "suggestion": {"shown": "iffer", "hidden": "", "words": words}}
    editor.lua(SHOW, json.dumps(told), "a.py:3:5")
    said = f"  75 %      -      -      -  iffer\n{' ' * 31}from csv in the standard library\n"
    assert said in editor.explanation


@pytest.mark.parametrize("said", [True, False])
def test_the_page_of_another_language_tells_of_the_place_as_well(editor: Neovim, said: bool) -> None:
    suggestion = {"shown": "area", "hidden": "", "words": []} if said else None
    notice = {"notice": "the model knows Python only", "suggestion": suggestion, "parts": [], "rest": ""}
    editor.lua(SHOW, json.dumps(explained("/shapes.py") | notice), "a.rs:3:5")
    told = "This is what was suggested here." if said else "Nothing was suggested here yet."
    assert f"\n{told}\nthe model knows Python only\n" in editor.explanation


def test_the_whole_prompt_with_its_markers_is_folded(editor: Neovim) -> None:
    editor.lua(SHOW, json.dumps(explained("/shapes.py")), "a.py:3:5")
    closed = [each for each in editor.explanation.split("\n") if "<|fim_" in each]
    [window] = [each for each in editor.api.windows if each.buffer.name == "efim-ls://explain"]
    for line in closed:
        number = window.buffer[:].index(line) + 1
        assert editor.lua(FOLDED, window.handle, number) != -1
    assert len(closed) == 3 and editor.lua(FOLDED, window.handle, 1) == -1


def test_the_page_tells_them_in_colours_as_well(editor: Neovim) -> None:
    editor.lua(SHOW, json.dumps(explained("/home/me/shapes.py")), "a.py:3:5")
    marks = {tuple(each) for each in editor.lua(MARKS)}
    costs = {("import os", "EfimKept"), ("x = 1", "EfimAhead"), ("print(x)", "EfimDisk"), ("y = ", "EfimRecomputed")}
    said = {("area", "EfimRepository"), ("(", "EfimModel"), ("ring", "EfimFile"), (")", "EfimHidden")}
    assert costs | said | {("/home/me/shapes.py:2", "EfimSource")} <= marks


def test_what_is_hidden_is_shown_in_a_real_session(editor: Neovim) -> None:
    editor.type("A", OPEN_ENDED[-1])
    assert editor.ghost().startswith(BEGINNING)
    editor.run("Efim explain")
    editor.until("the explanation", lambda: BEGINNING in editor.explanation)
    shown = editor.explanation
    assert re.search(r"The answer here, in tokens: kept \d+, ahead \d+, disk \d+, recomputed \d+\n", shown), shown
    assert re.search(r"\n +\d+ % .* ers\n", shown), shown
    _, _, hidden = shown.partition("hidden, until it is likely enough")
    assert re.search(rf"\n +\d+ % .* {re.escape(NEXT_PART.split()[0][0])}\n", hidden), shown
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
    assert "\nThis is what was suggested here." in editor.explanation
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
    for key, state in (("m", False), (":Efim repository<CR>", True)):
        editor.type(key)
        editor.until("what was chosen", lambda state=state: told_repository(editor) is state)


def told_repository(editor: Neovim) -> bool | None:
    told = editor.told("workspace/didChangeConfiguration")
    return told[-1]["settings"]["efim-ls"].get("repository") if told else None


def test_it_explains_again_and_closes(editor: Neovim, named: Path) -> None:
    editor.type("R")
    editor.until("another explanation", lambda: "a.py:3:5" not in editor.explanation)
    assert "efim-ls at test_it_explains_again_and_closes" in editor.explanation
    editor.type("q")
    editor.until("its end", lambda: not editor.explanation)


def test_leaving_out_needs_a_place(editor: Neovim) -> None:
    editor.lua("_G.notices = {}")
    editor.api.command("Efim leave-out")
    assert "put the cursor on a place that :Efim explain names" in editor.notices
