"""VS Code is asked for the names that its own TypeScript server lists behind a dot."""

from __future__ import annotations

import json
from typing import Any

from tests.waiting import eventually

from ..conftest import Opening
from ..drivers.window import Window

SHOP = """const owners: number = "a mistake that TypeScript's server marks once it is there"
interface Basket { quantityOfItems: number; owner: string }
export function count(basket: Basket): number {
    return basket"""
# The list of words would cover the ghost text.
QUIET = {".vscode/settings.json": json.dumps({"editor.suggestOnTriggerCharacters": False})}


def lists(window: Window) -> list[dict[str, Any]]:
    """Return the lists of names that the server was sent."""
    return window.code.conversation.sent("efim/names")


def type_dot(window: Window) -> None:
    """Type a dot until its names come in time, which a busy machine may prevent.

    TypeScript's server answers the list of words after the names: once it is there, they have come, or come too late.
    """
    window.page.locator(".squiggly-error").first.wait_for()

    def listed() -> bool:
        window.type(".")
        window.press("Control+Space")
        window.menu.filter(has_text="quantityOfItems").first.wait_for()
        window.press("Escape")
        if not lists(window):
            window.press("Backspace")
        return bool(lists(window))

    eventually(listed, lambda: f"no list of names came; the line is {window.line!r}")


def begin(opened: Opening, **settings: Any) -> Window:
    window = opened("shop.ts", SHOP, QUIET, **settings)
    window.see_status("ready")
    return window


def test_the_name_that_typescript_knows_is_shown(opened: Opening) -> None:
    window = begin(opened)
    type_dot(window)
    [sent] = lists(window)
    assert {"owner", "quantityOfItems"} == {item["label"] for item in sent["items"]}
    assert sent["position"] == {"line": 3, "character": len("    return basket.")}
    window.type("q")
    eventually(lambda: window.ghost.startswith("uantityOfItems"), lambda: f"the ghost text is {window.ghost!r}")
    window.type("uan")
    assert len(lists(window)) == 1, "once for a receiver"


def test_nobody_is_asked_where_the_user_wants_own_names(opened: Opening) -> None:
    window = begin(opened, names="own")
    before = len(lists(window))
    window.type(".q")
    eventually(lambda: window.line.endswith(".q"), lambda: window.line)
    window.see_saved(f"{SHOP}.q")
    assert len(lists(window)) == before
