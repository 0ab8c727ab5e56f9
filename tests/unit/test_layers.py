"""Who may import whom; the map in ARCHITECTURE.md says the same."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("efim_ls", "model_runtime", "kv_store", "efim_lab", "editor_clients")
LSP, MODEL = ("lsprotocol", "pygls"), ("torch", "transformers", "xformers", "safetensors.torch")


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


# Each room may import itself, what is named here, and its package's files that belong to no room.
ROOMS = {
    "efim_ls.commands": (
        "efim_ls.cli",  # `make docs` renders its parsers
        "efim_ls.session",
        "efim_ls.completion",
        "efim_ls.access",
        "efim_ls.usage",
        "efim_ls.text",
        "model_runtime",
        "kv_store",
        "efim_lab",
        "editor_clients.headless",
    ),
    "efim_ls.lsp": ("efim_ls.session", "efim_ls.access", "efim_ls.text", "efim_ls.completion"),
    "efim_ls.session": ("efim_ls.access", "efim_ls.usage", "efim_ls.text", "model_runtime.errors"),
    "efim_ls.completion": ("efim_ls.access", "efim_ls.text", "model_runtime", "kv_store"),
    "efim_ls.completion.postprocess": ("model_runtime.engine",),
    "efim_ls.access": (),
    "efim_ls.usage": ("efim_ls.text", "kv_store.atomic_files", "kv_store.warn_once"),
    "efim_ls.text": (),
    "model_runtime.loading": (
        "model_runtime.engine",
        "model_runtime.decoder",
        "model_runtime.arena",
        "model_runtime.checkpoint",
        "model_runtime.prompt",
    ),
    "model_runtime.engine": (
        "model_runtime.decoder",
        "model_runtime.arena",
        "model_runtime.checkpoint",
        "model_runtime.prompt",
    ),
    "model_runtime.decoder": ("model_runtime.arena", "model_runtime.checkpoint"),
    "model_runtime.arena": ("model_runtime.checkpoint",),
    "model_runtime.checkpoint": (),
    "model_runtime.prompt": (),
    "efim_lab.training": ("efim_lab.evaluation", "efim_ls.completion", "model_runtime"),
    "efim_lab.evaluation": ("efim_ls.completion", "model_runtime"),
    "efim_lab.paper": ("efim_lab.evaluation", "efim_ls.completion", "model_runtime"),
    "efim_lab.replay": ("efim_ls.completion", "model_runtime", "editor_clients.headless"),
}
ROOMLESS = {
    "efim_ls": ("request", "settings", "paths", "uris", "version"),
    "model_runtime": ("errors", "ids", "machine"),
    "efim_lab": ("documents", "errors", "simulation"),
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_is_below_it(room: str) -> None:
    beside = [f"{package}.{name}" for package, names in ROOMLESS.items() for name in names if within(room, package)]
    roomless = [f"efim_ls.{name}" for name in ROOMLESS["efim_ls"]] if within(room, "efim_lab") else []
    found = {each for module in MODULES if within(module, room) for each in MODULES[module]}
    ours = {each for each in found if within(each, *PACKAGES)}
    assert {each for each in ours if not within(each, room, *ROOMS[room], *beside, *roomless)} == set()


def test_every_folder_with_rooms_is_in_the_table() -> None:
    for package in ("efim_ls", "model_runtime", "efim_lab"):
        rooms = {f"{package}.{each.parent.name}" for each in (ROOT / package).glob("*/__init__.py")}
        assert rooms <= set(ROOMS)


def test_only_the_stores_entrance_knows_its_disk() -> None:
    assert_only(("kv_store.disk",), "kv_store.disk", "kv_store.open", "efim_ls.commands.cache")
    above = ("kv_store.open", "kv_store.store", "kv_store.memory", "kv_store.notes", "kv_store.writer")
    assert {module for module in importers(*above) if within(module, "kv_store.disk")} == set()


def test_the_two_leaves_meet_in_one_module() -> None:
    assert importers("model_runtime") & importers("kv_store") == {"efim_ls.completion.kv_persistence"}


def test_the_store_needs_little() -> None:
    known = {*sys.stdlib_module_names, "numpy", "xxhash", "kv_store"}
    found = {each.split(".")[0] for module in MODULES if within(module, "kv_store") for each in MODULES[module]}
    assert found <= known
