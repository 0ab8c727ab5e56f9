"""A key, a token or a password in a document comes back nowhere, through the real process."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.lsp.wire import ALONE, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS = (
    "ghp_9aXkQ2mP7rT4vW8yB3nL6cJ1dF5hG0sZuE9t",
    "Zx9kQ2mP7rT4vW8yB3nL6cJ1dF5hG0sZuE9tRq4w",
    "hunter2hunter3",
)
# By language: lines that hold a secret, what is typed in the same file and in another, and the control's word there.
FILES = {
    "python": ("API_TOKEN = '{}'\nuse(API_TOKEN)\n", "API_TOKEN = '‸", "use(API‸"),
    "typescript": ("const apiToken = '{}';\nuse(apiToken);\n", "const apiToken = '‸", "use(api‸"),
    "shellscript": ("export DB_TOKEN={}\nsource ./start_database.sh\n", "export DB_TOKEN=‸", "source ‸"),
    "yaml": ("password: {}\nimage: registry_of_images\n", "password: ‸", "image: ‸"),
    "json": ('{"password": "{}"},\n{"image": "registry_of_images"},\n', '{"password": "‸', '{"image": "‸'),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor():
    async with started(ALONE) as editor:
        yield editor


async def offered(editor: Editor, text: str, language: str) -> str:
    """All that is offered by key, with the secret's beginning typed and without, and while typing."""
    page = editor.open(text, language=language)
    said = [await page.ask(1)[1], await page.ask(2)[1]]
    page.close()
    return str(said)


@pytest.mark.parametrize("language", FILES)
async def test_no_suggestion_says_a_secret_again(editor: Editor, language: str):
    lines, begun, control = FILES[language]
    for key in KEYS:
        text = lines.replace("{}", key) * 3
        other = editor.open(text + "‸", language=language)
        for start in (text, ""):
            for typed in ("", key[:4]):
                said = await offered(editor, start + begun.replace("‸", f"{typed}‸"), language)
                assert key[4:12] not in said and "\\x1a" not in said, (start, typed)
        assert key not in (await other.explain())["prompt"]
        assert (await offered(editor, control, language)).strip("[None, ]"), "what is no secret is said again"
        other.close()


async def test_a_key_that_is_typed_is_forgotten_once_it_is_one(editor: Editor):
    page = editor.open("import os\n\nTOKEN = '‸'\n\n\n")
    for sign in KEYS[0]:
        page.type(sign)
    page.edit(len(page.text), len(page.text), "TOKEN = '")
    assert KEYS[0][8:] not in str([await page.ask(1)[1], await page.ask(2)[1], await page.explain()])
    editor.close_pages()
