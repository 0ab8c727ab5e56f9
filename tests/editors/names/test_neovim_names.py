"""Neovim asks the buffer's other servers for the names behind a dot or a bracket: real ones, of three languages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from ..conftest import need
from ..drivers.neovim import RECORDER, SETUP, Neovim, neovim
from ..fetching.neovim import NATIVE, OLDER
from ..fetching.part import Part
from ..fetching.servers import GOPLS, PYTHON_LSP_SERVER, TYPESCRIPT_LANGUAGE_SERVER

# Starts another server for a buffer of a filetype, as most users' configurations do.
START = """
vim.api.nvim_create_autocmd("FileType", {
  pattern = "%s",
  callback = function(event)
    vim.lsp.start({ name = "%s", cmd = vim.split("%s", " "), root_dir = "%s" }, { bufnr = event.buf })
  end,
})
"""


class Other(NamedTuple):
    """Another server, a file with an unfinished line, what is typed behind it, and what only that server knows."""

    part: Part
    words: str
    file: str
    text: str
    typed: str
    ghost: str


SHOP_TS = """interface Basket { quantityOfItems: number; owner: string }
export function count(basket: Basket): number {
    return basket"""
SHOP_PY = """import fractions

half = fractions.Fraction(1, 2)
print(half"""
SHOP_GO = """package shop

import "strings"

func grow(b strings.Builder) int {
	return b"""
OTHERS = (
    Other(TYPESCRIPT_LANGUAGE_SERVER, "--stdio", "shop.ts", SHOP_TS, ".q", "uantityOfItems"),
    Other(PYTHON_LSP_SERVER, "", "shop.py", SHOP_PY, ".lim", "it_denominator"),
    Other(GOPLS, "", "shop.go", SHOP_GO, ".R", "eset"),
)


@pytest.fixture(scope="module", params=(NATIVE, OLDER), ids=lambda part: part.key)
def editor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neovim]:
    part: Part = request.param
    folder = tmp_path_factory.mktemp(part.key)
    (folder / "go.mod").write_text("module shop\n\ngo 1.19\n")
    starts = ""
    for other in OTHERS:
        filetype = {"ts": "typescript", "py": "python", "go": "go"}[other.file.rpartition(".")[2]]
        starts += START % (filetype, other.part.name, f"{need(other.part)} {other.words}".strip(), folder)
    with neovim(need(part), folder, RECORDER + starts + SETUP.replace("OPTIONS", "")) as made:
        yield made


def begin(editor: Neovim, other: Other) -> None:
    """Edit a file with an unfinished line, once both servers serve it."""
    editor.edit(other.file, other.text)
    editor.until("a server", lambda: editor.efim("status()").startswith(("efim ready", "efim limited")))
    editor.until("both servers", lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 2)
    editor.type("A")


def lists(editor: Neovim, other: Other) -> list[dict[str, Any]]:
    """Return the lists of names that the server was sent for a file."""
    told = editor.told("efim/names")
    return [each for each in told if each["textDocument"]["uri"].endswith(f"/{other.file}")]


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.part.name)
def test_the_name_that_the_other_server_knows_is_shown(editor: Neovim, other: Other) -> None:
    begin(editor, other)
    editor.type(other.typed[0])
    sent = editor.until("a list of names", lambda: lists(editor, other))
    assert sent[0]["server"] == other.part.name
    editor.type(other.typed[1:])
    editor.until("the name", lambda: any(each.startswith(other.ghost) for each in editor.ghosts))
    assert len(lists(editor, other)) == 1, "once for a receiver"


def test_nobody_is_asked_where_the_user_wants_own_names(editor: Neovim) -> None:
    own = OTHERS[0]._replace(file="own.ts")
    begin(editor, own)
    editor.lua('require("efim_ls.names").ask_others = false')
    editor.type(*own.typed)
    editor.line(own.text.rpartition("\n")[2] + own.typed)
    editor.lua('require("efim_ls.names").ask_others = true')
    editor.type("<BS>", "<BS>", ".")
    editor.until("a list of names", lambda: lists(editor, own))
    assert len(lists(editor, own)) == 1, "the first dot was not asked about"
