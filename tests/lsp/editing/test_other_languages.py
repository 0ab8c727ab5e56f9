"""Languages that no embedded model knows, and several that one does, through a real process."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED
from tests.lsp.wire import ALONE, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIND = """struct Product {
  let sku: String
  let price: Double
}

func find(products: [Product], sku: String) -> Product? {
  for product in products {
    if product.sku == sku {
      return product
    }
  }
  return nil
}

"""
SIGNATURE = FIND + "func total(products: [Product]): ‸"
LOOP = FIND + "func total(products: [Product]) -> Double {\n  var sum = 0.0\n  for pro‸"
PHRASE = "duct in"
GREETING = "export function greet(user: { name: string }): string {\n  return `Hello ${user.‸"

# Code, and what is suggested there by key: what the file says above, without what stands below.
BY_KEY = {
    "ruby": (
        """def first(rows)
  rows.each do |row|
    show(row)
  end
end

def last(rows)
  rows.each do |row|
    sh‸
    count(row)
  end
end
""",
        "ow(row)",
    ),
    "php": (
        """<?php
function first(array $products): ?Product
{
    foreach ($products as $product) {
        show($product);
    }
    return null;
}

function last(array $products): ?Product
{
    foreach ($pro‸
}
""",
        "ducts as $product) {}",
    ),
    "shellscript": (
        """for path in "$@"; do
    if [ -f "$path" ]; then
        cat "$path"
    fi
done

for path in "$@"; do
    if [ -f "$path" ]; t‸
    fi
done
""",
        'hen\n        cat "$path"',
    ),
    "java": (
        """class Store {
    Row first(List<Row> rows) {
        for (Row row : rows) {
            if (row.isWanted()) {
                return row;
            }
        }
        return null;
    }

    Row last(List<Row> rows) {
        for (Row row : rows) {
            if (row.is‸
        }
        return null;
    }
}
""",
        "Wanted()) {\n                return row;\n            }",
    ),
    "c": (
        """int first(const struct row *rows)
{
#ifdef CHECKED
    if (rows == NULL)
        return -1;
#endif
    return rows->first;
}

int last(const struct row *rows)
{
#ifdef CHECKED
    if (rows == N‸
#endif
    return rows->last;
}
""",
        "ULL)\n        return -1;",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(ALONE) as editor:
        yield editor


async def status(editor: Editor, uri: str) -> dict:
    return await editor.ask("efim/status", {"textDocument": {"uri": uri}})


async def test_no_python_is_suggested_in_swift(editor: Editor):
    page = editor.open(SIGNATURE, "file:///total.swift", "swift")
    assert await page.ghost() is None
    assert (await editor.stats())["last_reason"] == "no phrase"
    explained = await page.explain()
    assert explained["reason"] == "no phrase" and "'model'" in explained["why"] and explained["prompt"] == ""
    page.close()


async def test_a_phrase_of_the_file_is_suggested_without_a_pass_and_typed_through(editor: Editor):
    page = editor.open(LOOP, "file:///loop.swift", "swift")
    assert await page.ghost() == PHRASE
    costs = (await editor.stats())["last"]
    assert costs["recomputed"] == costs["reused"] == costs["passes"] == 0 < costs["new_tokens"]
    for typed in ("d", "uct", " "):
        page.type(typed)
    assert await page.ghost() == PHRASE.removeprefix("duct ")
    assert (await page.explain())["reason"] is None
    await editor.ask("efim/settled")
    assert (await editor.stats())["ahead"]["tokens"] == 0, "nothing is computed ahead for it, either"
    page.close()


@pytest.mark.parametrize("language", BY_KEY)
async def test_what_stands_below_is_not_suggested_again(editor: Editor, language: str):
    text, expected = BY_KEY[language]
    page = editor.open(text, f"file:///below.{language}", language)
    item = await page.item(kind=1)
    assert item and item["insertText"] == expected
    page.close()


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("mode.py", "python-base"), ("none.py", None), ("empty.py", ""), ("mode.js", "js2"),
        ("App.tsx", "typescript"),
        ("App.jsx", "js"), ("old.js", "ECMAScript 6"),
    ],
)  # fmt: skip
async def test_the_model_answers_whatever_an_editor_calls_the_language(editor: Editor, name: str, called: str | None):
    uri = f"file:///{name}"
    opened = {"uri": uri, "languageId": called, "version": 1, "text": ""}
    editor.tell("textDocument/didOpen", {"textDocument": opened})
    told = await status(editor, uri)
    assert told["notice"] is None and told["model"] == str(
        SHIPPED["python" if name.endswith(".py") else "typescript"]
    )
    editor.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


async def test_the_status_of_a_document_says_what_the_model_knows(editor: Editor):
    pages = {name: editor.open("‸", f"file:///a.{name}", name) for name in ("kotlin", "python", "typescript", "zig")}
    told = {name: await status(editor, page.uri) for name, page in pages.items()}
    assert told["kotlin"]["notice"] == (
        "The embedded models know Python, JavaScript and TypeScript only; here suggestions come from this file's own "
        "phrases. Choose a model that knows Kotlin with the setting 'model'."
    )
    assert "knows Zig with" in told["zig"]["notice"]
    assert (
        told["python"]["notice"] is told["typescript"]["notice"] is None
        and (await editor.ask("efim/status"))["notice"] is None
    )
    assert {each["state"] for each in told.values()} == {"ready"}
    assert set(told["kotlin"]["languages"]) >= set(SHIPPED)
    assert {name: each["model"] for name, each in told.items()} == {
        name: str(SHIPPED.get(name, EMBEDDED)) for name in pages
    }
    assert (await pages["kotlin"].explain())["notice"] == told["kotlin"]["notice"]
    editor.close_pages()


async def test_two_languages_have_their_own_models_side_by_side(editor: Editor):
    shapes = editor.open("def area(width, height):\n    return wid‸", "file:///shapes.py")
    greeting = editor.open(GREETING, "file:///greeting.ts", "typescript")
    for _ in range(2):
        assert str(await shapes.ghost()).startswith("th")
        assert str(await greeting.ghost()).startswith("name")
    assert (await editor.stats())["last"]["recomputed"] == 0, "each goes on where it was left"
    models = (await status(editor, greeting.uri))["models"]
    assert [Path(each["model"]) for each in models] == [EMBEDDED, SHIPPED["typescript"]]
    editor.close_pages()


async def test_where_suggestions_are_off_only_that_is_said(editor: Editor):
    page = editor.open("‸", "file:///a.md", "markdown")
    told = await status(editor, page.uri)
    assert told["state"] == "off" and told["notice"] is None
    page.close()


async def test_a_language_without_a_name_is_read_off_the_file(editor: Editor):
    for uri, knows in (
        ("file:///b.kt", False),
        ("file:///b.tsx", True),
        ("file:///b.pyi", True),
        ("file:///b", True),
        ("untitled:b", True),
    ):
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
