"""Languages that the embedded model does not know, through a real process: whose words come, what is said."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.lsp.wire import REAL, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIND = """interface Product {
  sku: string;
  price: number;
}

export function find(products: Product[], sku: string): Product | undefined {
  for (const product of products) {
    if (product.sku === sku) {
      return product;
    }
  }
  return undefined;
}

"""
SIGNATURE = FIND + "export function total(products: Product[]): ‸"
LOOP = FIND + "export function total(products: Product[]): number {\n  let sum = 0;\n  for (const pro‸"
PHRASE = "duct of products"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(REAL) as editor:
        yield editor


async def status(editor: Editor, uri: str) -> dict:
    return await editor.ask("efim/status", {"textDocument": {"uri": uri}})


async def test_no_python_is_suggested_in_typescript(editor: Editor):
    page = editor.open(SIGNATURE, "file:///total.ts", "typescript")
    assert await page.ghost() is None
    assert (await editor.stats())["last_reason"] == "no phrase"
    explained = await page.explain()
    assert explained["reason"] == "no phrase" and "'model'" in explained["why"] and explained["prompt"] == ""
    page.close()


async def test_a_phrase_of_the_file_is_suggested_without_a_pass_and_typed_through(editor: Editor):
    page = editor.open(LOOP, "file:///loop.ts", "typescript")
    assert await page.ghost() == PHRASE
    costs = (await editor.stats())["last"]
    assert costs["recomputed"] == costs["reused"] == costs["passes"] == 0 < costs["new_tokens"]
    for typed in ("d", "uct", " o"):
        page.type(typed)
    assert await page.ghost() == PHRASE.removeprefix("duct o")
    assert (await page.explain())["reason"] is None
    await editor.ask("efim/settled")
    assert (await editor.stats())["ahead"]["tokens"] == 0, "nothing is computed ahead for it, either"
    page.close()


async def test_the_status_of_a_document_says_what_the_model_knows(editor: Editor):
    pages = {name: editor.open("‸", f"file:///a.{name}", name) for name in ("typescript", "python", "zig")}
    told = {name: await status(editor, page.uri) for name, page in pages.items()}
    assert told["typescript"]["notice"] == (
        "The embedded model knows Python only; here suggestions come from this file's own phrases. "
        "Choose a model that knows TypeScript with the setting 'model'."
    )
    assert "knows Zig with" in told["zig"]["notice"]
    assert told["python"]["notice"] is None and (await editor.ask("efim/status"))["notice"] is None
    assert {each["state"] for each in told.values()} == {"ready"}
    assert told["typescript"]["languages"] == ["python"]
    assert (await pages["typescript"].explain())["notice"] == told["typescript"]["notice"]
    editor.close_pages()


async def test_where_suggestions_are_off_only_that_is_said(editor: Editor):
    page = editor.open("‸", "file:///a.md", "markdown")
    told = await status(editor, page.uri)
    assert told["state"] == "off" and told["notice"] is None
    page.close()


async def test_a_language_without_a_name_is_read_off_the_file(editor: Editor):
    for uri, knows in (("file:///b.ts", False), ("file:///b.pyi", True), ("file:///b", True), ("untitled:b", True)):
        page = editor.open("‸", uri, "")
        assert ((await status(editor, uri))["notice"] is None) == knows, uri
        page.close()


async def test_a_notebook_cell_in_python_is_python(editor: Editor):
    page = editor.open("import o‸", "vscode-notebook-cell:/a.ipynb#W0", "python")
    assert (await status(editor, page.uri))["notice"] is None
    page.close()


async def test_a_setting_brings_the_model_back(editor: Editor):
    page = editor.open(SIGNATURE, "file:///total.swift", "swift")
    for languages, asked, key in ((["*"], True, "P"), (["swift"], True, " "), (["go"], False, " ")):
        settings = {"model_languages": languages, "suggestions": 0}
        editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": settings}})
        await editor.loaded()
        assert ((await status(editor, page.uri))["notice"] is None) == asked
        suggested = await page.ghost()
        assert ((await editor.stats())["last"]["recomputed"] > 0) == asked
        assert (suggested is not None) == asked
        page.type(key)
    page.close()
