"""Keywords of what a call means in the workspace, from a real process: while its user types, in any file's words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio

from tests.lsp.improvements import CAN_BE_TOLD, improvements
from tests.lsp.wire import ALONE, Editor, Page, launched
from tests.waiting import HANG

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORDERS = """from dataclasses import dataclass


class Order:
    def __init__(self, customer, zebra_stripes=3):
        self.customer = customer

    def ship(self, quagga, /, xenon=1, **others):
        return quagga


@dataclass
class Line:
    xylophone: str
    quantity: int = 1


def place(order, *orders, zebra_limit={}, yak_limit=1):
    return order
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shop").resolve()
    (made / "orders.py").write_text(ORDERS, "utf-8")
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(folder: Path):
    async with launched(ALONE) as found:
        await found.start(CAN_BE_TOLD, workspaceFolders=[{"uri": folder.as_uri(), "name": "shop"}])
        await found.ask("efim/settled")
        yield found
        assert await found.close() == 0


@pytest.fixture(autouse=True)
def _fresh(editor: Editor):  # pyright: ignore[reportUnusedFunction]
    yield
    editor.close_pages()


@pytest.fixture(scope="module")
def told(editor: Editor) -> asyncio.Queue[str]:
    """The documents whose suggestions are to be asked for again."""
    return improvements(editor)


def in_file(editor: Editor, folder: Path, code: str) -> Page:
    text = f"from orders import Line, Order, place\n\n\n{code}‸\n"
    return editor.open(text, (folder / "main.py").as_uri())


@pytest.mark.parametrize(
    ("code", "rest", "owner"),
    [
        ("place(order, z", "ebra_limit", "place"),
        ("Order(customer, z", "ebra_stripes", "Order"),
        ("Line(x", "ylophone", "Line"),
        ("order.ship(1, x", "enon", "ship"),
        ("place(\n    order,\n    yak_limit=2,\n    z", "ebra_limit", "place"),
    ],
)
async def test_the_only_keyword_that_begins_so_is_suggested_and_explained(
    editor: Editor, folder: Path, code: str, rest: str, owner: str
):
    page = in_file(editor, folder, code[:-1])
    await page.ghost()
    await editor.ask("efim/settled")
    page.type(code[-1])
    assert await page.ghost() == rest
    [word] = (await page.explain())["suggestion"]["words"]
    assert word["source"] == f"from {owner} in the workspace"


@pytest.mark.parametrize(
    "code",
    [
        "order.ship(q",  # microsoft/pylance-release#5117: positional only
        "place(order, zebra_limit=1, z",  # davidhalter/jedi#1541: it has been given
        "place(order.z",  # astral-sh/ty#2264: an attribute
        "place(order, yak_limit=z",  # a value
        "def place(order, z",  # a definition
        "place(order)\nz",
    ],
)
async def test_nothing_is_offered_where_no_keyword_can_stand(editor: Editor, folder: Path, code: str):
    page = in_file(editor, folder, code)
    await page.ghost()
    await editor.ask("efim/settled")
    shown = (await page.ghost()) or ""
    assert not shown.startswith(("ebra", "uagga"))


async def test_a_function_that_is_not_saved_counts_as_soon_as_it_is_known(
    editor: Editor, folder: Path, told: asyncio.Queue[str]
):
    page = in_file(editor, folder, "def place(narwhal): ...\n\n\nplace(n")
    assert await page.ghost() is None
    async with asyncio.timeout(HANG):
        assert await told.get() == page.uri
    assert await page.ghost() == "arwhal"
