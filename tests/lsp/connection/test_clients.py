"""What each editor is offered: real servers that are told, word for word, what real editors say of themselves.

recorder.py made the requests in initialize/; LSP4IJ's request is written down from its source
(ClientCapabilitiesFactory.java, d21cff92); tests/golden/clients.md is what the servers made of them.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol import types
from lsprotocol.converters import get_converter

from tests.lsp.wire import ROOT, Editor, Page, launched
from tests.waiting import HANG

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTS = sorted(Path(__file__).parents[1].joinpath("initialize").glob("*.json"))
ROWS = [line for line in (ROOT / "tests/golden/clients.md").read_text("utf-8").splitlines() if line[:2] == "| "][2:]
TO_ANYBODY = {"window/logMessage", "window/showMessage"}
TO_THOSE_WHO = {
    ("window", "workDoneProgress"): {"window/workDoneProgress/create", "$/progress"},
    ("workspace", "configuration"): {"workspace/configuration"},
    ("workspace", "didChangeWatchedFiles", "dynamicRegistration"): {"client/registerCapability"},
    ("experimental", "efimStatus"): {"efim/didChangeStatus"},
}


@dataclass
class Conversation:
    """An editor's request, and what a server does about it."""

    name: str
    request: dict[str, Any]
    editor: Editor
    offered: dict[str, Any] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def can(self, *path: str) -> bool:
        """Whether the editor claims something, as its JSON says it; some say null for an object without members."""
        claims: Any = self.request["capabilities"]
        for name in path[:-1]:
            claims = claims.get(name) or {}
        return path[-1] in claims and claims[path[-1]] is not False

    def listen(self) -> None:
        protocol = self.editor.client.protocol
        handle = protocol.handle_message

        def heard(message: Any) -> None:
            if method := getattr(message, "method", None):
                self.heard.add(method)
                self.news.set()
            handle(message)

        protocol.handle_message = heard

    @property
    def may_hear(self) -> set[str]:
        return set[str]().union(*(methods for claim, methods in TO_THOSE_WHO.items() if self.can(*claim)))

    async def begin(self) -> None:
        """Connect as the editor does, say that settings have changed, and wait for all that the server has to say."""
        self.listen()
        capabilities = get_converter().structure(self.request["capabilities"], types.ClientCapabilities)
        self.editor.client.capabilities = capabilities
        self.offered = (await self.editor.ask("initialize", self.request))["capabilities"]
        self.editor.encoding = self.offered["positionEncoding"]
        self.editor.tell("initialized", {})
        async with asyncio.timeout(HANG):
            while (await self.editor.ask("efim/status"))["state"] != "ready":
                pass
        self.editor.tell("workspace/didChangeConfiguration", {"settings": None})
        async with asyncio.timeout(HANG):
            while not self.may_hear <= self.heard:
                self.news.clear()
                await self.news.wait()

    async def suggestion(self, page: Page) -> dict[str, Any]:
        """What to insert where, in the way that the editor is offered; its one item."""
        if "completionProvider" in self.offered:
            menu = await page.menu()
            assert menu is not None
            [item] = menu["items"]
            return item
        item = await page.item()
        assert item is not None
        return item


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=REQUESTS, ids=lambda path: path.stem)
async def client(request):
    async with launched() as editor:
        read = json.loads(request.param.read_text("utf-8"))
        conversation = Conversation(request.param.stem, read, editor)
        await conversation.begin()
        yield conversation
        assert await editor.close() == 0


async def test_ghost_text_to_those_who_show_it_and_the_menu_to_others(client: Conversation):
    assert "inlineCompletionProvider" in client.offered
    assert ("completionProvider" in client.offered) is not client.can("textDocument", "inlineCompletion")


async def test_positions_are_counted_in_the_first_of_the_units_that_the_editor_names(client: Conversation):
    general = client.request["capabilities"].get("general") or {}
    assert client.offered["positionEncoding"] == general.get("positionEncodings", ["utf-16"])[0]


async def test_a_suggestion_lands_behind_letters_of_any_width(client: Conversation):
    page = client.editor.open("# say gth\n'😀' + (größen_le‸)")
    page.type("n")
    item = await client.suggestion(page)
    edit = item.get("textEdit") or {"range": item["range"], "newText": item["insertText"]}
    start, end = (offset(page, edit["range"][edge]) for edge in ("start", "end"))
    page.edit(start, end, edit["newText"])
    assert page.text == "# say gth\n'😀' + (größen_length)"
    assert (await page.explain())["prompt"] == "# say gth\n'😀' + (größen_length"


async def test_nothing_is_said_that_the_editor_cannot_take(client: Conversation):
    await client.editor.ask("efim/settled")
    assert client.heard <= client.may_hear | TO_ANYBODY


async def test_the_matrix_says_so(client: Conversation):
    item = await client.suggestion(client.editor.open("# say \\n    pass\\n    return\nelse:‸"))
    cells = (
        client.name.replace("-", " "),
        client.offered["positionEncoding"],
        "menu" if "completionProvider" in client.offered else "ghost text",
        {str: "indented text", dict: "Markdown", type(None): "-"}[type(item.get("documentation"))],
        *("yes" if methods <= client.heard else "no" for methods in TO_THOSE_WHO.values()),
    )
    assert f"| {' | '.join(cells)} |" in ROWS


async def test_the_matrix_has_no_other_clients():
    assert [row.split(" | ")[0].removeprefix("| ").replace(" ", "-") for row in ROWS] == [r.stem for r in REQUESTS]


def offset(page: Page, position: dict[str, int]) -> int:
    """The only place that has this position: one inside a letter has none."""
    [found] = [place for place in range(len(page.text) + 1) if page.position(place) == position]
    return found
