"""Ghost text in a real VS Code: shown, and accepted whole, by words and by lines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.waiting import eventually

from .conftest import Opening, newest_only
from .drivers.conversation import ASKING
from .drivers.shapes import ABROAD, BEGINNING, BEGUN, HEAD, NEXT_PART, OPEN_ENDED, REST, SHAPES
from .drivers.window import Window

CELLS = ("def calibrate_sensor(readings, offset):\n    return [each + offset for each in readings]\n", "")
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": f"cell{number}", "execution_count": None, "metadata": {}, "outputs": [],
         "source": text.splitlines(keepends=True)}
        for number, text in enumerate(CELLS)
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}  # fmt: skip
TABLES = 3 * 'shapes_to_draw = {\n    "first": rect,\n}\n\n'
AUTOMATIC = {"triggerKind": 2}  # no key asked for it


def test_tab_takes_the_ghost_text(window: Window):
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    window.picture("ghost-text")
    window.press("Tab")
    window.see_line(f"    {BEGUN}{REST}")
    window.see_saved(f"{SHAPES}{HEAD}    {BEGUN}{REST}")


def test_a_word_is_taken_and_the_rest_stays(window: Window):
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    window.press("Control+ArrowRight")
    window.see_line("    width, height")
    window.see_ghost(" = rect.width, rect.height")
    window.press("Tab")
    window.see_saved(f"{SHAPES}{HEAD}    {BEGUN}{REST}")


@pytest.mark.parametrize("key", ["Tab", "Control+ArrowDown"], ids=["whole", "line"])
def test_the_next_part_is_shown_once_the_likely_beginning_is_accepted(window: Window, key: str):
    see_likely_beginning(window)
    window.press(key)
    window.see_ghost(NEXT_PART)
    assert window.code.conversation.sent(ASKING)[-1]["context"] == AUTOMATIC
    window.press("Tab")
    window.see_saved(SHAPES + OPEN_ENDED + BEGINNING + NEXT_PART)


def test_typing_past_the_end_of_what_is_shown_goes_on_with_it(window: Window):
    see_likely_beginning(window)
    window.type(BEGINNING + NEXT_PART[:2])
    eventually(lambda: window.ghost.startswith(NEXT_PART[2:]), lambda: f"the ghost text is {window.ghost!r}")
    window.see_saved(SHAPES + OPEN_ENDED + BEGINNING + NEXT_PART[:2])


def see_likely_beginning(window: Window) -> None:
    """Go to what has a likely beginning, and wait until that is shown."""
    window.show(SHAPES + OPEN_ENDED[:-1])
    window.type(OPEN_ENDED[-1])
    window.see_ghost(BEGINNING)


@pytest.mark.parametrize("below", ["", "\n}"], ids=["open", "closed"])
def test_enter_behind_an_accepted_bracket_makes_the_block(window: Window, below: str):
    window.show(f"{TABLES}shapes_to{below}")
    window.press(*below.strip().replace("}", "ArrowUp End").split())
    window.type("_")
    window.see_ghost("draw = {")
    window.press("Tab")
    window.see_line("shapes_to_draw = {")
    window.press("Enter")
    window.see_saved(TABLES + "shapes_to_draw = {\n    \n}")
    window.see_ghost('"first": rect,')
    window.type("x")
    window.see_saved(TABLES + "shapes_to_draw = {\n    x\n}")


def test_tab_takes_the_ghost_text_once_the_list_of_words_is_closed(window: Window):
    """As the extension's README says."""
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    window.press("Control+Space")
    window.menu.first.wait_for()
    window.press("Escape")
    window.menu.first.wait_for(state="hidden")
    window.see_ghost(REST)
    window.press("Tab")
    window.see_saved(f"{SHAPES}{HEAD}    {BEGUN}{REST}")


def test_a_line_is_taken_and_the_rest_stays(window: Window):
    window.type("def describe_border(rect):\n")
    window.press("Alt+Backslash")
    first, rest = eventually(lambda: parted(window.ghost), lambda: f"no two lines of ghost text: {window.ghost!r}")
    window.press("Control+ArrowDown")
    window.see_ghost(rest)
    window.see_saved(f"{SHAPES}def describe_border(rect):\n    {first}\n")


def parted(text: str) -> tuple[str, ...]:
    """Return the first line of a text and the rest; nothing if either is empty."""
    first, _, rest = text.partition("\n")
    return (first, rest) if first and rest else ()


def test_what_follows_other_scripts_lands_behind_them(window: Window):
    window.show(ABROAD + SHAPES)
    begun = ABROAD[: ABROAD.index("ct.width")]
    window.type(begun)
    window.see_ghost("ct.width, rect.height")
    window.press("Control+ArrowRight")
    window.see_line(f"{begun}ct]")  # VS Code has closed the bracket
    window.press("Tab")
    window.see_saved(ABROAD + SHAPES + ABROAD.rstrip())


def test_another_suggestion_is_shown_on_demand(window: Window):
    window.type("def border_")
    window.press("Alt+Backslash")
    texts = {*eventually(lambda: several(window), lambda: "the server answered with no alternatives")}
    first = eventually(lambda: window.ghost, lambda: "no ghost text")  # may be one that came while typing
    window.press("Alt+BracketRight")
    second = see_one_of(window, texts - {first})
    window.press("Alt+BracketLeft")
    see_one_of(window, {first, *texts} - {second})
    window.press("Alt+BracketRight")
    window.see_ghost(second)


def see_one_of(window: Window, texts: set[str]) -> str:
    return eventually(lambda: texts & {window.ghost}, lambda: f"{window.ghost!r} is none of {texts}").pop()


def several(window: Window) -> tuple[str, ...]:
    """Return the texts of the last answer if there are several."""
    texts = [each.texts for each in window.code.conversation.answers()][-1:]
    return texts[0] if texts and len(texts[0]) > 1 else ()


def test_ghost_text_is_never_stale_while_typing_fast(window: Window):
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    known, line = f"    {BEGUN}{REST}", f"    {BEGUN}ght = rect.width + 2 * 3 - rect.hei"
    window.watch()
    window.type(line.lstrip().removeprefix(BEGUN), delay=10)
    window.see_ghost("ght")
    shown = [(line, ghost) for line, ghost in window.watched() if ghost]
    assert len(shown) > 1
    assert [each for each in shown if known.startswith(each[0]) and "".join(each) != known] == []
    answered = {line[: each.character] + text for each in window.code.conversation.answers() for text in each.texts}
    assert [each for each in shown if "".join(each) not in answered] == []
    window.press("Tab")
    window.see_line(f"{line}ght")


def test_the_server_is_told_where_the_user_is(window: Window):
    document = {"textDocument": {"uri": window.file.as_uri()}}
    top = document | {"position": {"line": 0, "character": 0}}

    def moves() -> list[dict[str, Any]]:
        return window.code.conversation.sent("efim/didMoveCursor")

    def at_the_top() -> bool:
        window.press("Control+End", "Control+Home")
        return moves()[-1:] == [top]

    eventually(at_the_top, lambda: f"the server is not told of the cursor: {moves()}")
    assert document in window.code.conversation.sent("textDocument/didFocus")


def test_the_status_bar_tells_what_an_answer_cost(window: Window):
    window.type(HEAD + BEGUN)
    window.see_ghost(REST)
    told = window.hover_status()
    assert re.search(r"Model: the embedded model for Python, on \w+", told), told
    assert re.search(r"A typical key: \d+\.\d ms", told), told
    assert re.search(r"Last suggestion: \d+\.\d ms", told), told
    assert re.search(r"Suggestions: [1-9]\d* seen, \d+ taken whole, \d+ in part", told), told


@newest_only
def test_a_cell_is_completed_with_what_the_cells_above_define(opened: Opening) -> None:
    window = opened(text=SHAPES, beside={"sensor.ipynb": json.dumps(NOTEBOOK)})
    window.see_status("ready")
    window.press("Control+p")
    window.page.keyboard.insert_text("sensor.ipynb")
    window.page.locator(".quick-input-list .monaco-list-row.focused", has_text="sensor.ipynb").wait_for()
    window.press("Enter")
    cells = window.page.locator(".notebook-editor .cell.code .monaco-editor .view-lines")
    cells.nth(1).click()
    window.type("result = calibrate_")
    window.picture("notebook")
    window.see_ghost("sensor")
    window.press("Tab")
    window.see_line("result = calibrate_sensor")
