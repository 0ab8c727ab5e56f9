"""Next edits as a user of Neovim sees them: shown, gone to, made, undone and refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.editors.conftest import need
from tests.editors.drivers.neovim import RECORDER, SETUP, Neovim, neovim, text_of
from tests.editors.drivers.servers import ONE_RULE, for_neovim
from tests.editors.fetching.neovim import NATIVE, OLDER
from tests.editors.fetching.part import Part
from tests.lsp.one_rule import RULE

KEYS = 'accept = "<Tab>", next_edit = "<Tab>", refuse_edit = "<Esc>"'
TEXT = "größe = width\nedge = 'größe 🙂', width\n" + "pass\n" * 60 + "half = width\n"


@pytest.fixture(scope="module", params=(NATIVE, OLDER), ids=lambda part: part.key)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neovim]:
    part: Part = request.param
    folder = tmp_path_factory.mktemp(part.key)
    settings = f'shared = false, suggestions = "on request", cache_folder = "{folder}/kept"'
    init = RECORDER + SETUP.replace(
        "OPTIONS", f"{for_neovim(ONE_RULE)}, keys = {{ {KEYS} }}, settings = {{ {settings} }}"
    )
    with neovim(need(part), folder, init) as editor:
        yield editor


@pytest.fixture
def editor(shared: Neovim, request: pytest.FixtureRequest) -> Neovim:
    """A Neovim whose user has just changed the first `width` to `depth`."""
    shared.edit(f"{request.node.name.partition('[')[0]}.py", TEXT)
    shared.ready()
    shared.type("gg", "fw", "cwdepth<Esc>")
    shared.line("größe = depth")
    return shared


def drawn(editor: Neovim) -> list[tuple[int, str, str]]:
    """Line, struck text and new text of each mark."""
    namespace = editor.api.api.get_namespaces().get("efim_ls.next_edit")
    marks = editor.api.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True}) if namespace else []
    return [
        (row + 1, struck(editor, row, col, more), text_of(more.get("virt_text", []))) for _, row, col, more in marks
    ]


def struck(editor: Neovim, row: int, col: int, more: dict[str, object]) -> str:
    if "end_col" not in more:
        return ""
    return "\n".join(editor.api.current.buffer.api.get_text(row, col, more["end_row"], more["end_col"], {}))


def shown(editor: Neovim, line: int) -> None:
    edit = [(line, "width", ""), (line, "", "depth")]
    editor.until(f"a next edit at line {line}", lambda: [each for each in drawn(editor) if each in edit] == edit)


def counted(editor: Neovim) -> dict[str, int]:
    return editor.request("efim/stats")["next_edits"]


def test_an_edit_is_gone_to_made_and_undone(editor: Neovim) -> None:
    before = counted(editor)
    shown(editor, 2)
    assert editor.api.current.window.cursor[0] == 1
    editor.type("<Tab>")
    editor.until("a jump", lambda: editor.api.current.window.cursor[0] == 2)
    assert editor.api.current.line == TEXT.split("\n")[1]
    shown(editor, 2)
    editor.type("<Tab>")
    editor.line("edge = 'größe 🙂', depth")
    editor.until("a hint", lambda: (2, "", "next edit: line 63") in drawn(editor))
    editor.type("u")
    editor.line(TEXT.split("\n")[1])
    assert editor.lines[0] == "größe = depth"
    after = counted(editor)
    assert after["accepted"] - before["accepted"] == 1 and after["shown"] > before["shown"]


def test_it_is_made_while_inserting(editor: Neovim) -> None:
    shown(editor, 2)
    editor.type("j", "A")
    shown(editor, 2)
    editor.type("<Tab>.<Esc>")
    editor.line("edge = 'größe 🙂', depth.")


def test_a_refused_edit_is_gone_for_good(editor: Neovim) -> None:
    shown(editor, 2)
    editor.type("<Esc>")
    editor.until("nothing at line 2", lambda: drawn(editor) == [])
    editor.type("j")
    editor.until("a hint", lambda: (2, "", "next edit: line 63") in drawn(editor))
    assert not any(line == 2 and new == "depth" for line, _, new in drawn(editor))


def test_keys_keep_their_meaning_where_nothing_is_shown(editor: Neovim) -> None:
    editor.efim("disable()")
    editor.until("nothing", lambda: drawn(editor) == [])
    editor.type("o", "<Tab>", "x")
    editor.line("    x")
    editor.type("<Esc>")
    assert editor.api.api.get_mode()["mode"] == "n"
    editor.efim("enable()")


def test_the_command_goes_makes_and_refuses(editor: Neovim) -> None:
    shown(editor, 2)
    editor.api.command("EfimNextEdit jump")
    editor.until("a jump", lambda: editor.api.current.window.cursor[0] == 2)
    shown(editor, 2)
    editor.api.command("EfimNextEdit accept")
    editor.line("edge = 'größe 🙂', depth")
    editor.until("a hint", lambda: (2, "", "next edit: line 63") in drawn(editor))
    editor.api.command("EfimNextEdit refuse")
    editor.until("nothing", lambda: drawn(editor) == [])
    editor.api.command("EfimNextEdit")
    assert "no next edit is shown" in editor.notices


def test_what_is_typed_elsewhere_hides_it_until_it_is_offered_again(editor: Neovim) -> None:
    shown(editor, 2)
    editor.type("3G", "O", "")
    editor.until("insert mode", lambda: editor.api.api.get_mode()["mode"] == "i")
    editor.type("x = 1", "<Esc>")
    editor.line("x = 1")
    editor.until("another edit, or none", lambda: (2, "", "depth") not in drawn(editor))


def test_the_explanation_names_the_rule(editor: Neovim) -> None:
    shown(editor, 2)
    editor.api.command("Efim explain")
    editor.until("the rule", lambda: f'by the rule "{RULE}"' in editor.explanation)
    said = editor.explanation
    assert "py:2  width -> depth" in said and re.search(r"py:1  w\w+ -> d\w+", said)
    editor.api.command("close")


def test_the_setting_turns_it_off(editor: Neovim) -> None:
    shown(editor, 2)
    editor.lua('require("efim_ls.server").choose({ next_edit = false })')
    editor.type("x")
    editor.until("nothing", lambda: drawn(editor) == [])
    editor.lua('require("efim_ls.server").choose({ next_edit = true })')
