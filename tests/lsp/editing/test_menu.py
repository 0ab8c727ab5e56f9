"""The completion menu, for clients without ghost text, with a model that says what it is told."""

from __future__ import annotations

from textwrap import indent

import pytest
import pytest_asyncio

from tests.lsp.wire import MENU, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(capabilities=MENU) as editor:
        yield editor


@pytest.mark.parametrize(
    ("marked", "label", "new", "start"),
    [
        ("# say urn x\nret‸", "return x", "return x", 0),
        ("# say x\n    return ‸", "x", "x", 11),
        ("# say \\n    pass\\n    return\nelse:‸", "pass …", "\n    pass\n    return", 5),
        ("# say gth\n'😀' + größen_len‸", "größen_length", "größen_length", 7),
        ("# say  x y\n    a =‸", "x y", " x y", 7),
        pytest.param("# say y\n" + 300 * "a" + "‸", 60 * "a" + " …", 200 * "a" + "y", 100, id="a very long word"),
    ],
)
async def test_the_menu_offers_the_whole_word_or_line(editor: Editor, marked, label, new, start):
    page = editor.open(marked)
    answer = await page.menu()
    assert answer is not None
    assert answer["isIncomplete"] is True
    [item] = answer["items"]
    assert item["label"] == label
    assert item["filterText"] == new.strip().split("\n")[0]
    assert item["detail"] == "efim-ls"
    assert item["preselect"] is False
    end = page.position(page.cursor)
    replaced = {"start": {**end, "character": start}, "end": end}
    assert item["textEdit"] == {"range": replaced, "newText": new}
    assert item["command"]["command"] == "efim-ls.accept"


LOOP = "# say r b in s:\\n        print(b)\\n    return `x`\ndef f(s):\n    fo‸"
LINES = "for b in s:\n    print(b)\nreturn `x`"
FENCED = "# say ```\\nx\n‸"


@pytest.mark.parametrize(
    ("formats", "marked", "documentation"),
    [
        ([], LOOP, indent(LINES, "    ")),
        (["plaintext", "markdown"], LOOP, indent(LINES, "    ")),
        (["markdown", "plaintext"], LOOP, {"kind": "markdown", "value": f"```python\n{LINES}\n```"}),
        (["markdown"], FENCED, {"kind": "markdown", "value": "````python\n```\nx\n````"}),
        (["markdown"], "# say x\n‸", None),
    ],
)
async def test_what_is_longer_than_a_label_is_shown_beside_it_as_code(formats, marked, documentation):
    shown = {"completion": {"completionItem": {"documentationFormat": formats} if formats else {}}}
    async with started(capabilities={**MENU, "textDocument": shown}) as editor:
        answer = await editor.open(marked).menu()
        assert answer is not None
        assert answer["items"][0].get("documentation") == documentation


async def test_a_position_beyond_a_lines_end_is_taken_for_its_end(editor: Editor):
    page = editor.open("# say more\n‸\nlast")
    answer = await editor.ask(
        "textDocument/inlineCompletion", {**page.place, "position": {"line": 1, "character": 9}}
    )
    end = {"line": 1, "character": 0}
    assert answer["items"][0]["range"] == {"start": end, "end": end}


async def test_an_empty_suggestion_is_no_menu(editor: Editor):
    assert await editor.open("ret‸").menu() is None


async def test_the_menu_and_ghost_text_supersede_each_other(editor: Editor):
    page = editor.open("# block\n‸")
    _, ghost = page.ask(kind=1)
    _, menu = editor.send("textDocument/completion", page.place)
    assert await ghost is None
    page.edit(0, 7, "# say more")
    assert await page.ghost() == "more"
    assert await menu is None


async def test_the_menu_and_ghost_text_that_ask_the_same_share_an_answer(editor: Editor):
    page = editor.open("# block\n‸")
    _, ghost = page.ask()
    _, menu = editor.send("textDocument/completion", page.place)
    page.edit(0, 7, "# say more")
    assert await page.ghost() == "more"
    assert await ghost is None
    assert await menu is None


async def test_who_asks_by_a_key_is_told_apart(editor: Editor):
    page = editor.open("# explicit\n‸")
    answers = [(await page.item(kind) or {})["insertText"] for kind in (0, 1, 2, 3)]
    assert answers == ["True", "True", "False", "False"]
    menu = await page.menu()
    assert menu is not None and menu["items"][0]["textEdit"]["newText"] == "False"
