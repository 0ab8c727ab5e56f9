"""What a user of Neovim sees and does: in 0.12 through its own inline completion, in 0.10 through the plugin's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import need
from .drivers.neovim import RECORDER, SETUP, Neovim, neovim
from .drivers.shapes import BEGINNING, NEXT_PART, OPEN_ENDED, SHAPES
from .fetching.neovim import NATIVE, OLDER
from .fetching.part import Part

KEYS = 'accept = "<Tab>", accept_word = "<C-Right>", accept_line = "<C-Down>", trigger = "<C-g>", next = "<C-n>"'
SETTINGS = 'disabled_languages = { "lua" }, menu = "always", suggestions = 0.2'
AUTOMATIC = 2  # LSP's kind of a request that no key made
FOREIGN = 'print("größe 🙂 日本", area_of_circle(radius))'
WIDE = "def compute_the_total_amount(first_argument, second_argument):"
# Suggestions define a name again only if it is overloaded.
OVERLOADS = (
    3
    * """@overload
def area_of_circle(radius):
    return 3.14 * radius * radius


"""
)
# In one call: a window may close by itself between two, and take its buffer with it.
CLOSE_OTHERS = """
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if buffer ~= vim.api.nvim_get_current_buf() and vim.api.nvim_buf_is_valid(buffer) then
        vim.api.nvim_buf_delete(buffer, { force = true })
    end
end
"""
TEXT = f"""\
{FOREIGN}


{OVERLOADS}@overload
{WIDE}
    return first_argument + second_argument


def nothing():
    pass


"""


@pytest.fixture(scope="module", params=(NATIVE, OLDER), ids=lambda part: part.key)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neovim]:
    """One Neovim and one server for all of these tests: each opens a file of its own."""
    part: Part = request.param
    folder = tmp_path_factory.mktemp(part.key)
    settings = f'{SETTINGS}, cache_folder = "{folder}/kept"'
    init = RECORDER + SETUP.replace("OPTIONS", f"keys = {{ {KEYS} }}, settings = {{ {settings} }}")
    with neovim(need(part), folder, init) as editor:
        yield editor


@pytest.fixture
def editor(shared: Neovim, request: pytest.FixtureRequest) -> Neovim:
    edit_alone(shared, f"{request.node.name}.py", TEXT)
    shared.ready()
    return shared


def edit_alone(editor: Neovim, name: str, text: str) -> None:
    """Edit a new file, the only one that is open: suggestions follow what stands in others."""
    editor.edit(name, text)
    editor.lua(CLOSE_OTHERS)


def test_ghost_text_is_accepted_by_a_key(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    assert editor.ghost().startswith("rcle(radius):")
    assert editor.api.current.line == "def area_of_ci"
    editor.type("<Tab>")
    editor.line("def area_of_circle(radius):")


def test_a_key_keeps_its_meaning_where_nothing_is_shown(editor: Neovim) -> None:
    editor.efim("disable()")
    editor.type("o", "<Tab>", "x")
    editor.line("    x")
    editor.efim("enable()")


def test_words_are_accepted_one_by_one(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    editor.ghost()
    for line in ("def area_of_circle", "def area_of_circle(", "def area_of_circle(radius"):
        editor.type("<C-Right>")
        editor.line(line)
        assert editor.ghost().startswith("def area_of_circle(radius):".removeprefix(line))


def test_keys_in_a_burst_lose_nothing(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    editor.ghost()
    editor.type("<C-Right><C-Right>")
    editor.line("def area_of_circle(")
    editor.ghost()
    editor.type("<C-Down>  # and")
    editor.line("def area_of_circle(radius):  # and")
    editor.type(" on")
    editor.line("def area_of_circle(radius):  # and on")


@pytest.mark.parametrize("key", ["<Tab>", "<C-Right>", "<C-Down>"], ids=["whole", "word", "line"])
def test_the_next_part_is_shown_once_the_likely_beginning_is_accepted(editor: Neovim, key: str) -> None:
    line = at_open_ended(editor)
    for part in re.findall(r"\w+|\.", BEGINNING) if key == "<C-Right>" else [BEGINNING]:
        editor.ghost()
        editor.type(key)
        line += part
        editor.line(line)
    editor.until("the next part", lambda: editor.ghosts == [NEXT_PART])
    assert editor.lua("return _G.asked")[-1] == AUTOMATIC
    editor.type("<Tab>")
    editor.line(line + NEXT_PART)


def test_typing_past_the_end_of_what_is_shown_goes_on_with_it(editor: Neovim) -> None:
    line = at_open_ended(editor)
    editor.type(BEGINNING + NEXT_PART[:2])
    editor.line(line + BEGINNING + NEXT_PART[:2])
    assert editor.ghost().startswith(NEXT_PART[2:])


def at_open_ended(editor: Neovim) -> str:
    """Go to what has a likely beginning; return the line once that beginning is shown."""
    edit_alone(editor, f"open_ended_{editor.api.current.buffer.number}.py", SHAPES + OPEN_ENDED)
    editor.type("A")
    editor.until("the likely beginning", lambda: editor.ghosts == [BEGINNING])
    return editor.api.current.line


def test_a_line_is_accepted(editor: Neovim) -> None:
    editor.type("o", "def area_of_circle(ra")
    editor.ghost()
    editor.type("<C-g>")  # several lines, since it was asked for
    assert editor.ghost(other_than="dius):") == "dius):\n    return 3.14 * radius * radius"
    editor.type("<C-Down>")
    editor.line("def area_of_circle(radius):")
    assert editor.ghost(other_than="") == "\n    return 3.14 * radius * radius"
    editor.type("<C-Down>")
    editor.line("    return 3.14 * radius * radius")


def test_alternatives_are_chosen_from(editor: Neovim) -> None:
    begun = "from typing import "
    editor.type("o", begun)
    editor.ghost()
    editor.type("<C-g>")
    editor.until(
        "alternatives",
        lambda: len(editor.lua("return require('efim_ls.suggestions').left(vim.api.nvim_get_current_buf())")) > 1,
    )
    first = editor.ghost()
    editor.type("<C-n>")
    second = editor.ghost(other_than=first)
    assert second.split(" (2/")[0] != first
    editor.type("<Tab>")
    editor.until("the second", lambda: "\n".join(editor.lines).endswith(begun + second.split(" (2/")[0]))


CLOSING = """
vim.keymap.set("i", "(", "()<Left>", { buffer = true })
vim.keymap.set("i", "{", "{}<Left>", { buffer = true })
vim.keymap.set("i", "<CR>", function()
  local col = vim.fn.col(".")
  return vim.fn.getline("."):sub(col - 1, col) == "{}" and "<CR><Esc>O" or "<CR>"
end, { buffer = true, expr = true })
"""
HEAD_OF_LOOP = "while (shapes_to_draw.length > 0) {"
LOOPS = 3 * f"{HEAD_OF_LOOP}\n    draw(shapes_to_draw.pop());\n}}\n\n"


def test_what_closes_brackets_closes_the_one_that_accepted_text_ends_with(editor: Neovim) -> None:
    editor.lua(CLOSING)
    editor.type("o", "def area_of_ci")
    editor.ghost()
    editor.type("<C-Right>")
    editor.line("def area_of_circle")
    editor.ghost()
    editor.type("<C-Right>")
    editor.line("def area_of_circle()")
    editor.type("radius")
    editor.line("def area_of_circle(radius)")


@pytest.mark.parametrize("closing", ["", CLOSING], ids=["plain", "closing"])
def test_enter_behind_an_accepted_brace_makes_the_block_as_behind_a_typed_one(shared: Neovim, closing: str) -> None:
    blocks = []
    for keys in ("<C-Down>", HEAD_OF_LOOP[14:]):
        edit_alone(shared, f"loops_{len(closing)}_{len(keys)}.js", LOOPS)
        shared.ready()
        shared.type("o", HEAD_OF_LOOP[:14])
        shared.ghost()
        shared.lua(f"vim.bo.shiftwidth = 4\n{closing}")
        shared.type(keys)
        shared.until("the head", lambda: shared.lines[12].startswith(HEAD_OF_LOOP))
        shared.type("<CR>x")
        blocks.append(shared.until("the block", lambda: shared.lines[13:] and shared.lines[12:]))
    assert blocks[0] == blocks[1] == [HEAD_OF_LOOP, "    x", *(["}"] if closing else [])]


def test_enter_behind_an_accepted_colon_makes_the_block(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    editor.ghost()
    editor.type("<C-Down>")
    editor.line("def area_of_circle(radius):")
    editor.type("<CR>x")
    editor.line("    x")


def test_typing_through_ghost_text_keeps_it(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    editor.ghost()
    editor.lua("_G.drawn = {}")
    editor.type("r", "c", "l")
    editor.until("the rest", lambda: first_lines(editor.ghosts) == ["e(radius):"])
    drawn = editor.lua("return _G.drawn")
    assert {(each["line"], *first_lines(each["ghosts"])) for each in drawn} <= {
        ("def area_of_ci" + typed, "rcle(radius):".removeprefix(typed)) for typed in ("", "r", "rc", "rcl")
    }


def first_lines(texts: list[str]) -> list[str]:
    return [text.split("\n")[0] for text in texts]


def test_dismissed_ghost_text_stays_away_until_the_next_key(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    editor.ghost()
    assert editor.efim("dismiss()")
    assert editor.ghosts == []
    editor.type("r")
    assert editor.ghost().startswith("cle(radius):")


def test_characters_of_several_bytes_stand_before(editor: Neovim) -> None:
    begun = 'print("größe 🙂 日本", area_of_ci'
    editor.type("o", begun)
    editor.ghost()
    editor.type("<C-Right>")
    editor.line('print("größe 🙂 日本", area_of_circle')
    editor.ghost()
    editor.type("<Tab>")
    editor.line(FOREIGN)


def test_words_and_lengths_of_any_script(shared: Neovim) -> None:
    words = []
    text = 'größe 🙂 日本", area_of(x)'
    while text:
        words.append(shared.lua('return require("efim_ls.parts").word(...)', text))
        text = text.removeprefix(words[-1])
    assert words == ["größe", " 🙂", " 日本", '",', " area_of", "(", "x", ")"]
    lengths = [shared.lua('return require("efim_ls.parts").utf16_length(...)', word) for word in words]
    assert lengths == [len(word.encode("utf-16-le")) // 2 for word in words]


@pytest.mark.parametrize("typed", [WIDE[:44], WIDE[:20] + "xyz(first_argument, sec"], ids=["through", "away"])
def test_no_stale_ghost_text_is_ever_shown(editor: Neovim, typed: str) -> None:
    editor.type("o")
    editor.lua("_G.drawn, _G.answered = {}, {}")
    editor.type(typed[:20])
    editor.ghost()
    editor.type(*typed[20:])
    editor.line(typed)
    last = editor.ghost()
    drawn, answered = editor.lua("return _G.drawn"), editor.lua("return _G.answered")
    suggested = {each["line"] + each["text"] for each in answered}
    shown = {each["line"] + ghost for each in drawn for ghost in each["ghosts"]}
    assert shown <= suggested
    assert all(len(each["ghosts"]) <= 1 for each in drawn)
    editor.type("<Tab>")
    editor.line(typed + last.split("\n")[0])


def test_several_lines_take_the_rest_of_the_line_along(editor: Neovim) -> None:
    editor.type("o", "area()", "<Left>")
    editor.until("the cursor", lambda: editor.api.current.window.cursor[1] == len("area("))
    editor.lua('require("efim_ls.ghost").show(vim.api.nvim_get_current_buf(), "1,\\n\\t2")')
    assert "1,\n    2)" in editor.ghosts


def test_the_menu_offers_it_too(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci", "<C-x><C-o>")
    info = editor.until("the menu", lambda: editor.api.funcs.complete_info(["items"])["items"])
    assert any("area_of_circle(radius):" in item["word"] for item in info)
    editor.type("<C-e>")


def test_a_language_that_is_left_out(editor: Neovim) -> None:
    editor.edit("left_out.lua", "local function area_of_circle(radius)\nend\n")
    editor.until("the state of this file", lambda: editor.efim("status()") == "efim off")
    editor.type("o", "local function area_of_ci")
    assert editor.request("efim/explain", position={"line": 0, "character": 0})["reason"] == "language off"
    assert editor.ghosts == []
    editor.type("<Esc>")
    editor.run("Efim status")
    assert "disabled_languages" in editor.until("the reason", lambda: editor.floating)


def test_a_language_that_the_model_does_not_know(editor: Neovim) -> None:
    uses = "".join(f"    let a{i} = area_of_circle(radius);\n" for i in range(4))
    editor.edit("circles.rs", f"fn circles(radius: f64) {{\n{uses}}}\n")
    editor.type("3G", "o", "    let b = area_of_c")
    editor.until("the line", lambda: editor.api.current.line.endswith("area_of_c"))
    editor.type("i")
    assert editor.ghost().startswith("rcle(radius)")
    editor.type("<Esc>")
    editor.run("Efim explain")
    editor.until("the notice", lambda: "TypeScript only" in editor.explanation)


def test_switched_off_and_on(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    editor.ghost()
    editor.api.command("Efim disable")
    assert editor.ghosts == []
    editor.until("the state", lambda: editor.efim("status()") == "efim off")
    editor.type("r")
    assert editor.request("efim/explain", position={"line": 0, "character": 0})["reason"] == "disabled"
    assert editor.ghosts == []
    editor.api.command("Efim toggle")
    assert editor.ghost().startswith("cle(radius):")


def test_on_request_only_a_key_asks_the_model(editor: Neovim) -> None:
    editor.api.command("Efim on-request")
    editor.type("o", "def area_of_ci")
    editor.until("an answer", lambda: editor.request("efim/stats")["last_reason"] == "on request")
    assert editor.ghosts == []
    editor.type("<C-g>")
    assert editor.ghost().startswith("rcle(radius):")
    editor.efim("suggest(0.2)")
    editor.type("<Esc>", "o", "def area_of_ci")
    assert editor.ghost().startswith("rcle(radius):")


def test_what_becomes_of_suggestions_is_told(editor: Neovim) -> None:
    before = editor.request("efim/stats")
    editor.type("o", "def area_of_ci")
    editor.ghost()
    editor.type("<C-Right>")
    editor.line("def area_of_circle")
    editor.ghost()
    editor.type("<Tab>")
    definition = "def area_of_circle(radius):"  # and perhaps what follows it
    editor.until("another definition", lambda: editor.lines.count(definition) == 4)

    def told() -> bool:
        now = editor.request("efim/stats")
        grown = [now[name] - before[name] for name in ("partially_accepted", "accepted", "shown")]
        return grown[:2] == [1, 1] and grown[2] >= 1  # what comes next is shown as well

    editor.until("what was told", told)
    shown = [each["item"]["insertText"] for each in editor.told("textDocument/didShowCompletion")]
    assert any(text.startswith("rcle(radius):") for text in shown)


def test_the_server_knows_where_the_user_is(editor: Neovim) -> None:
    uri = editor.lua("return vim.uri_from_bufnr(0)")
    editor.type("gg", "j")
    editor.until("the cursor", lambda: at(editor) == {"line": 1, "character": 0})
    editor.type("5G", "A", "<Left>")
    editor.until("the cursor", lambda: at(editor) == {"line": 4, "character": len("def area_of_circle(radius)")})
    assert editor.told("textDocument/didFocus")[-1] == {"textDocument": {"uri": uri}}
    told = len(editor.told("efim/didMoveCursor"))
    editor.type("xyz")
    editor.until("the keys", lambda: "xyz" in editor.api.current.line)
    assert len(editor.told("efim/didMoveCursor")) == told


def at(editor: Neovim) -> object:
    return editor.told("efim/didMoveCursor")[-1]["position"]


def test_commands_tell(editor: Neovim) -> None:
    editor.type("o", "def area_of_ci")
    editor.ghost()
    editor.type("<Esc>", "G")
    editor.run("Efim stats")
    assert "tokens reused" in editor.until("the counters", lambda: editor.floating)
    editor.type("k")
    editor.until("its end", lambda: not editor.floating)
    editor.api.command("Efim status")
    told = editor.until("the state", lambda: editor.floating)
    assert "efim-ls: ready" in told and "- model: the embedded model for Python\n" in told
    assert re.search(r"- a typical key: \d+\.\d ms\n", told), told
    editor.api.command("Efim nonsense")
    assert "Use one of balanced, clear-cache, disable, enable, explain, help, leave-out, log" in editor.notices
    assert editor.api.funcs.getcompletion("Efim re", "cmdline") == ["repository", "restart"]


CHOOSE = """
_G.choice, _G.offered = ..., nil
vim.ui.select = function(items, options, chosen)
  _G.offered = vim.tbl_map(options.format_item, items)
  chosen(_G.choice ~= vim.NIL and _G.choice or nil)
end
"""


def test_alone_the_command_shows_what_there_is(editor: Neovim) -> None:
    editor.lua(CHOOSE, "toggle")
    editor.api.command("Efim")
    assert "toggle       turn suggestions on or off" in editor.lua("return _G.offered")
    editor.until("suggestions that are off", lambda: editor.efim("status()") == "efim off")
    editor.api.command("Efim enable")
    editor.ready()


LATE_END = """
local ends, defer = {}, vim.defer_fn
vim.defer_fn = function(fn)
  ends[#ends + 1] = fn
  return vim.uv.new_timer()
end
local efim = require("efim_ls")
efim.snooze()
efim.snooze()
vim.defer_fn = defer
local after = {}
for index, fn in ipairs(ends) do
  fn()
  after[index] = require("efim_ls.server").enabled
end
return after
"""


def test_the_end_of_a_snooze_does_not_end_the_next_one(editor: Neovim) -> None:
    assert editor.lua(LATE_END) == [False, True]


def test_a_snooze_ends_by_itself_or_with_the_next_command(editor: Neovim) -> None:
    editor.efim("snooze(0.0001)")
    editor.ready()
    editor.api.command("Efim snooze")
    editor.until("suggestions that are off", lambda: editor.efim("status()") == "efim off")
    editor.api.command("Efim enable")
    editor.ready()


def test_a_model_is_chosen_from_those_that_fit(editor: Neovim) -> None:
    editor.lua(CHOOSE, None)
    editor.api.command("Efim model")
    offered = editor.until("the models", lambda: editor.lua("return _G.offered"))
    assert len([each for each in offered if each.startswith("Built in")]) == 1, offered
    assert "(recommended), about" in offered[0] or "a key" in offered[0]


def test_a_server_is_chosen_with_its_model_and_left_for_another_model(editor: Neovim) -> None:
    def choose(wanted: dict[str, str], **model: str) -> None:
        editor.lua(CHOOSE, {"name": "coder", **model})
        editor.api.command("Efim model")
        setting = 'return require("efim_ls.server").setting("engine")'
        editor.until("the choice", lambda: (editor.lua(setting) or {}) == wanted)

    choose({"url": "http://127.0.0.1:9"}, setting="", engine="http://127.0.0.1:9")
    choose({}, setting="")
    editor.ready()


def test_the_log_opens(editor: Neovim) -> None:
    editor.api.command("Efim log")
    assert Path(editor.api.current.buffer.name).name == "lsp.log"
    editor.api.command("tabclose")


def test_cleared(editor: Neovim) -> None:
    """What is kept where the settings say; a server that runs may save more."""
    editor.type("o", "def area_of_ci")
    editor.ghost()
    [folder, *_] = editor.until("what is kept", lambda: kept(editor))
    (mark := folder / "mark").touch()
    editor.lua("_G.notices = {}")
    editor.api.command("Efim clear-cache")
    assert "removed: " in editor.until("what was removed", lambda: editor.notices)
    assert not mark.exists()


def kept(editor: Neovim) -> list[Path]:
    """Return the folders of models."""
    return [each for each in (editor.folder / "kept").glob("*") if each.is_dir()]
