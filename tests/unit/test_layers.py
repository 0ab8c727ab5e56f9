"""Who may import whom; the drawing is in ARCHITECTURE.md."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("efim_ls", "model_runtime", "kv_store", "efim_lab", "editor_clients")
LSP, MODEL = ("lsprotocol", "pygls"), ("torch", "transformers", "xformers", "safetensors.torch")
WITHOUT_LSP = (
    "efim_ls.completion.completer",
    "efim_ls.completion.planner",
    "efim_ls.completion.window",
    "efim_ls.text.document",
    "efim_ls.completion.postprocess",
)


def imports(path: Path) -> set[str]:
    """Every module and name that a file imports, wherever in the file, as dotted names."""
    package, found = ".".join(path.relative_to(ROOT).parent.parts), set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (above, node.module) if part)
            found |= {f"{module}.{each.name}" for each in node.names}
    return found


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): imports(path)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def importers(*names: str) -> set[str]:
    return {module for module, imported in MODULES.items() if any(within(each, *names) for each in imported)}


def assert_only(names: tuple[str, ...], *packages: str) -> None:
    assert {module for module in importers(*names) if not within(module, *packages)} == set()


@pytest.mark.parametrize(
    "imported, importing",
    [
        (("efim_ls",), ("efim_ls", "efim_lab")),
        (("model_runtime",), ("model_runtime", "efim_ls", "efim_lab")),
        (("kv_store",), ("kv_store", "efim_ls")),
        (("efim_lab",), ("efim_lab", "efim_ls.commands.lab")),
        (("editor_clients",), ("editor_clients", "efim_ls.cli", "efim_ls.commands.lab", "efim_lab")),
        (LSP, ("efim_ls.lsp", "editor_clients.headless")),
        (MODEL, ("model_runtime", "efim_lab")),
    ],
    ids=lambda names: ", ".join(names),
)
def test_imported_only_by(imported: tuple[str, ...], importing: tuple[str, ...]) -> None:
    assert_only(imported, *importing)


# Each room of the runtime may import itself and those behind it.
RUNTIME_ROOMS = {
    "loading": ("engine", "decoder", "arena", "checkpoint", "prompt"),
    "engine": ("decoder", "arena", "checkpoint", "prompt"),
    "decoder": ("arena", "checkpoint"),
    "arena": ("checkpoint",),
    "checkpoint": (),
    "prompt": (),
}


@pytest.mark.parametrize("room", RUNTIME_ROOMS)
def test_the_rooms_of_the_runtime_import_one_way(room: str) -> None:
    allowed = [f"model_runtime.{each}" for each in (room, *RUNTIME_ROOMS[room], "errors", "ids", "machine")]
    found = {each for module in MODULES if within(module, f"model_runtime.{room}") for each in MODULES[module]}
    assert {each for each in found if within(each, "model_runtime") and not within(each, *allowed)} == set()


def test_the_two_leaves_meet_in_one_module() -> None:
    assert importers("model_runtime") & importers("kv_store") == {"efim_ls.completion.kv_persistence"}


def test_planning_and_completing_know_no_lsp() -> None:
    assert {module for module in importers(*LSP) if within(module, *WITHOUT_LSP)} == set()


def test_the_store_needs_little() -> None:
    known = {*sys.stdlib_module_names, "numpy", "xxhash", "kv_store"}
    found = {each.split(".")[0] for module in MODULES if within(module, "kv_store") for each in MODULES[module]}
    assert found <= known
