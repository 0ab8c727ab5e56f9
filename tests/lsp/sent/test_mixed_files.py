"""Files with parts in several languages: in each part the model of its language answers, through a real process."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED
from tests.lsp.wire import ALONE, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = "export function greet(user: { name: string }): string {\n  return `Hello ${user.‸}`;\n}\n"
PLAIN = SCRIPT.replace(": { name: string }", "").replace(": string", "")
TEMPLATE = '<ul>\n  <li v-for="user in users">{{ user.name }} {{ user.age < 3 }}</li>\n</ul>\n'
STYLE = ".greeting {\n  color: red;\n}\n"
FILES = {
    "vue": f'<template>\n{TEMPLATE}</template>\n\n<script setup lang="ts">\n{SCRIPT}</script>\n',
    "vue options": f"<script>\n{PLAIN}</script>\n\n<template>\n{TEMPLATE}</template>\n<style>\n{STYLE}</style>\n",
    "svelte": f'<script lang="ts">\n{SCRIPT}</script>\n\n{{#if users.length < 3}}\n{TEMPLATE}{{/if}}\n',
    "astro": f"---\n{SCRIPT}---\n<html>{TEMPLATE}</html>\n",
    "astro script": f"---\nconst users = [];\n---\n{TEMPLATE}<script>\n{SCRIPT}</script>\n",
    "html": f'<!doctype html>\n<body>\n{TEMPLATE}<script type="module">\n{PLAIN}</script>\n</body>\n',
    "ejs call": "<% const greet = (user) => user.name; %>\n<b><%= greet(user.‸) %></b>\n",
    "ejs": "<% for (const user of users) { %>\n  <b><%= user.name %></b>\n  <i><%= user.‸ %></i>\n<% } %>\n",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(ALONE) as editor:
        yield editor


async def status(editor: Editor, uri: str) -> dict:
    return await editor.ask("efim/status", {"textDocument": {"uri": uri}})


@pytest.mark.parametrize("name", FILES)
async def test_in_a_script_the_model_of_its_language_answers(name: str, editor: Editor):
    language = name.split()[0]
    page = editor.open(FILES[name], f"file:///greeting-{name}.{language}", language)
    assert str(await page.ghost()).startswith("name")
    assert (await editor.stats())["last"]["passes"] > 0
    told = await status(editor, page.uri)
    assert (told["model"], told["notice"]) == (str(SHIPPED["typescript"]), None)
    explained = await page.explain()
    assert explained["notice"] is None and explained["prompt"]
    page.type("n")
    assert await page.ghost()
    assert (await editor.stats())["last"]["recomputed"] <= 2, "the prompt grows by what is typed"
    page.close()


async def test_elsewhere_phrases_answer_and_the_language_there_is_told(editor: Editor):
    page = editor.open(FILES["vue"], "file:///place.vue", "vue")
    assert str(await page.ghost()).startswith("name")
    script = page.cursor
    page.cursor = page.text.index("age") + 1
    assert await page.ghost() is None
    assert (await editor.stats())["last"]["passes"] == 0
    told = await status(editor, page.uri)
    assert told["model"] == str(EMBEDDED) and told["notice"].endswith(
        "a model that knows Vue with the setting 'model'."
    )
    assert (await page.explain())["notice"] == told["notice"]
    page.cursor = script
    page.type("n")
    assert await page.ghost()
    assert (await editor.stats())["last"]["recomputed"] <= 2, "the script is as warm as it was left"
    page.close()


async def test_a_style_is_told_by_its_name(editor: Editor):
    page = editor.open(f"<p></p>\n<style>\n{STYLE}.a {{\n  col‸", "file:///style.html", "html")
    await page.ghost()
    assert "knows CSS with" in (await status(editor, page.uri))["notice"]
    page.cursor = 3
    await page.ghost()
    assert "knows HTML with" in (await status(editor, page.uri))["notice"]
    page.close()


async def test_a_part_is_one_once_its_tag_is_typed(editor: Editor):
    page = editor.open(
        "<p></p>\n<script‸\nconst user = { name: 1 };\nexport const all = us", "file:///tag.html", "html"
    )
    await page.ghost()
    assert (await status(editor, page.uri))["notice"]
    page.type(">")
    page.cursor = len(page.text)
    assert str(await page.ghost()).startswith("er")
    assert (await status(editor, page.uri))["notice"] is None
    page.close()


async def test_headers_and_dialects_of_cpp_are_known_by_whoever_knows_it(editor: Editor, tmp_path: Path):
    settings = {"model_languages": ["cpp"], "suggestions": 0}
    editor.tell("workspace/didChangeConfiguration", {"settings": {"efim-ls": settings}})
    await editor.loaded()
    (tmp_path / "engine.cpp").touch()
    places = {
        ("engine.h", "c", "int size;\n"): True, ("engine.h", "", "int size;\n"): True,
        ("main.c", "c", "int size;\n"): False, ("a/other.h", "c", "int size;\n"): False,
        ("a/other.h", "c", "#include <vector>\n"): True, ("a/other.h", "cpp", "int size;\n"): True,
        ("a/other.h", "c", "#ifdef __cplusplus\nclass Size;\n#endif\n"): False,
        ("add.cu", "cuda-cpp", ""): True, ("add.cuh", "", ""): True, ("add.cu", "cuda", ""): True,
        ("blink.ino", "arduino", ""): True, ("view.mm", "objective-cpp", ""): True,
        ("view.m", "objective-c", ""): False,
    }  # fmt: skip
    for (name, language, text), is_known in places.items():
        page = editor.open(f"{text}‸", (tmp_path / name).as_uri(), language)
        told = await status(editor, page.uri)
        assert (told["notice"] is None) == is_known, (name, language, text)
        assert (await page.explain())["notice"] == told["notice"]
        assert "cuda-cpp" in told["languages"]
        page.close()
