"""Who may import whom; the map in ARCHITECTURE.md says the same."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.source.imports import imports, within

ROOT = Path(__file__).parents[3]
PACKAGES = ("efim_ls", "model_runtime", "kv_store", "efim_lab", "editor_clients")
LSP, HTTP = ("lsprotocol", "pygls"), ("starlette", "uvicorn", "h11")
SHARED = ("valkey", "obstore", "cryptography")
MODEL = ("torch", "transformers", "xformers", "safetensors.torch")
# Modules that every room of their package may import; they import none of its rooms.
BASE = (
    "efim_ls.settings", "efim_ls.memory_shares",
    "efim_ls.request", "efim_ls.languages", "efim_ls.paths", "efim_ls.failures",
    "efim_ls.sqlite_files",
    "efim_ls.setting_objects",
    "efim_ls.version",
    "model_runtime.errors", "model_runtime.cancel", "model_runtime.sequence_key", "model_runtime.ids",
    "model_runtime.logits", "model_runtime.row_rules",
    "model_runtime.machine", "model_runtime.c_sources", "model_runtime.mapped_memory", "model_runtime.regular_files",
    "efim_lab.gate.errors", "efim_lab.gate.git", "efim_lab.gate.documents", "efim_lab.gate.held_out_packages",
    "efim_lab.gate.package_counts", "efim_lab.gate.simulation", "efim_lab.gate.outlined_files",
    "efim_lab.gate.package_keywords",
)  # fmt: skip
RUNTIME, STORE = ("model_runtime",), ("kv_store",)
GATE, WORKSHOP, STUDIES = "efim_lab.gate", "efim_lab.workshop", "efim_lab.studies"
# A room, and the rooms beside itself that it may import.
ROOMS: dict[str, tuple[str, ...]] = {
    "efim_lab.commands": (
        f"{GATE}.commands.cli",
        f"{GATE}.reference",
        "efim_lab.laboratory_page",
        WORKSHOP,
        STUDIES,
        "efim_ls.commands.arguments",
    ),  # fmt: skip
    "efim_lab.laboratory_page": (f"{GATE}.reference", WORKSHOP),
    f"{GATE}.commands": (
        f"{GATE}.evaluation",
        f"{GATE}.next_edit",
        f"{GATE}.replay",
        f"{GATE}.team",
        "efim_ls.commands.arguments",
        "efim_ls.completion",
        "editor_clients.headless",
        *RUNTIME,
    ),  # fmt: skip
    f"{GATE}.reference": ("efim_ls.cli", "efim_ls.commands", "model_runtime.remote"),
    "efim_ls.cli": ("efim_ls.lsp", "efim_ls.http", "efim_ls.daemon", "efim_ls.commands", "editor_clients.headless"),
    "efim_ls.daemon": (
        "efim_ls.lsp",
        "efim_ls.session",
        "efim_ls.completion",
        "model_runtime.errors",
    ),
    "efim_ls.daemon.address": (),
    "efim_ls.lsp": (
        "efim_ls.session",
        "efim_ls.workspace",
        "efim_ls.completion",
        "efim_ls.access",
        "efim_ls.text",
    ),  # fmt: skip
    "efim_ls.http": ("efim_ls.session", "efim_ls.text", "model_runtime.prompt"),
    "efim_ls.commands": (
        "efim_ls.daemon.address",
        "efim_ls.completion",
        "efim_ls.workspace",
        "efim_ls.session",
        "efim_ls.usage",
        "efim_ls.access",
        "efim_ls.text",
        *RUNTIME,
        *STORE,
    ),  # fmt: skip
    "efim_ls.session": (
        "efim_ls.next_edit",
        "efim_ls.completion",
        "efim_ls.workspace",
        "efim_ls.access",
        "efim_ls.usage",
        "efim_ls.text",
        "model_runtime.prompt",
        "model_runtime.shelves.excerpts",
    ),  # fmt: skip
    "efim_ls.completion": ("efim_ls.access", "efim_ls.text", *RUNTIME, *STORE),
    "efim_ls.usage": ("efim_ls.text", "kv_store.atomic_files", "kv_store.warn_once"),
    "efim_ls.workspace": (
        "efim_ls.access",
        "efim_ls.text",
        "model_runtime.counts",
        "model_runtime.prompt",
        "model_runtime.shelves.excerpts",
    ),
    "efim_ls.workspace.modules": (),
    "efim_ls.next_edit": ("efim_ls.text",),
    "efim_ls.access": (),
    "efim_ls.text": (),
    "model_runtime.loading": tuple(
        f"model_runtime.{each}" for each in ("shelves", "engine", "decoder", "kv", "checkpoint", "prompt")
    ),
    "model_runtime.remote": tuple(f"model_runtime.{each}" for each in ("engine", "kv", "prompt", "counts")),
    "model_runtime.engine": (
        "model_runtime.decoder",
        "model_runtime.kv",
        "model_runtime.prompt",
        "model_runtime.counts",
    ),  # fmt: skip
    "model_runtime.shelves": tuple(f"model_runtime.{each}" for each in ("engine", "decoder", "kv", "checkpoint")),
    "model_runtime.decoder": ("model_runtime.kv", "model_runtime.checkpoint"),
    "model_runtime.kv": ("model_runtime.checkpoint", "model_runtime.shelves.states", "model_runtime.shelves.windows"),
    "model_runtime.shelves.excerpts": ("model_runtime.prompt",),
    "model_runtime.shelves.states": (),
    "model_runtime.shelves.windows": (),
    "model_runtime.checkpoint": (),
    "model_runtime.checkpoint.gguf": ("model_runtime.checkpoint.tensors",),
    "model_runtime.prompt": ("model_runtime.counts",),
    "model_runtime.counts": (),
    "kv_store": (),
    f"{GATE}.evaluation": ("efim_ls.completion", "efim_ls.workspace", "efim_ls.access", *RUNTIME),
    f"{GATE}.replay": ("efim_ls.completion", "editor_clients.headless", *RUNTIME),
    f"{GATE}.next_edit": ("efim_ls.next_edit", "efim_ls.workspace", "efim_ls.text"),
    f"{GATE}.team": (f"{GATE}.replay", "efim_ls.completion", *RUNTIME),
    f"{GATE}.network": ("model_runtime.checkpoint",),
    f"{WORKSHOP}.publishing": ("efim_ls.languages", "model_runtime.checkpoint", "model_runtime.decoder"),
    f"{WORKSHOP}.training": (
        f"{GATE}.evaluation",
        f"{GATE}.network",
        f"{WORKSHOP}.publishing",
        "efim_ls.completion",
        "efim_ls.text.grammars",
        "efim_ls.workspace.modules",
        "efim_ls.commands.arguments",
        *RUNTIME,
    ),  # fmt: skip
    STUDIES: (
        f"{GATE}.commands",
        f"{GATE}.evaluation",
        f"{GATE}.replay",
        "efim_ls.completion",
        "efim_ls.workspace",
        "efim_ls.access",
        "efim_ls.text",
        "efim_ls.commands.arguments",
        *RUNTIME,
        *STORE,
    ),  # fmt: skip
    "editor_clients.headless": (),
    "editor_clients.vscode": (),
}


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}


@cache
def imported_by(module: str) -> set[str]:
    return imports(MODULES[module], ROOT)


def importers(*names: str) -> set[str]:
    return {module for module in MODULES if any(within(each, *names) for each in imported_by(module))}


def room_of(module: str) -> str | None:
    """The longest row that a module is in; none for base modules and packages themselves."""
    return max((room for room in ROOMS if within(module, room)), key=len, default=None)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_its_row_names(room: str) -> None:
    allowed = (room, *ROOMS[room], *BASE)
    modules = [module for module in MODULES if room_of(module) == room]
    assert modules, "a row for a room that is gone"
    found = {
        (m, each)
        for m in modules
        for each in imported_by(m)
        if within(each, *PACKAGES) and not within(each, *allowed)
    }
    assert found == set()


def test_rows_lead_one_way() -> None:
    def reach(room: str, seen: tuple[str, ...]) -> None:
        assert room not in seen, f"a circle: {' -> '.join((*seen, room))}"
        for other in ROOMS:
            if other != room and not within(room, other) and within(other, *ROOMS[room]):
                reach(other, (*seen, room))

    for room in ROOMS:
        reach(room, ())


def test_no_two_folders_import_each_other() -> None:
    """Packages' own folders apart: they hold the entrance, which imports rooms, and the base, which rooms import."""
    folders = {m.removesuffix(".__init__"): path.parent.relative_to(ROOT) for m, path in MODULES.items()}
    product = {
        m: folder for m, folder in folders.items() if folder.parts[0] in ("efim_ls", "model_runtime", "kv_store")
    }
    arrows = set[tuple[Path, Path]]()
    for module in product:
        for name in imported_by(module if module in MODULES else f"{module}.__init__"):
            other = product.get(name) or product.get(name.rpartition(".")[0])
            if other not in (None, product[module]):
                arrows.add((product[module], other))
    pairs = {(one, other) for one, other in arrows if (other, one) in arrows and one < other}
    inside = {tuple(map(Path.as_posix, pair)) for pair in pairs if len(pair[0].parts) > 1}
    print(f"{len(inside)} pairs of folders import each other")
    assert inside == set()


def test_every_module_is_in_a_room_or_a_base() -> None:
    inits = {f"{package}.__init__" for package in (*PACKAGES, GATE, WORKSHOP)}
    homeless = {m for m in MODULES if room_of(m) is None and not within(m, *BASE)}
    assert homeless - inits == {"efim_ls.__main__", "efim_lab.__main__", f"{GATE}.__main__"}


@pytest.mark.parametrize("base", [module for module in MODULES if within(module, *BASE)])
def test_a_base_imports_no_room_of_its_package(base: str) -> None:
    rooms = [room for room in ROOMS if room.split(".")[0] == base.split(".")[0]]
    assert {each for each in imported_by(base) if within(each, *rooms)} == set()


@pytest.mark.parametrize(
    "imported, importing",
    [
        (LSP, ("efim_ls.lsp", "editor_clients.headless", f"{STUDIES}.first_words")),  # which asks another server
        (HTTP, ("efim_ls.http",)),
        (MODEL, ("model_runtime", "efim_lab")),
        (SHARED, ("kv_store.shared",)),
        (("gguf",), ("model_runtime.checkpoint.gguf",)),
        (("httpx2",), ("model_runtime.remote", "model_runtime.checkpoint.hub", f"{GATE}.team")),
    ],
    ids=lambda names: ", ".join(names),
)
def test_a_library_is_imported_only_by(imported: tuple[str, ...], importing: tuple[str, ...]) -> None:
    assert {module for module in importers(*imported) if not within(module, *importing)} == set()


def test_nothing_that_is_installed_imports_the_laboratory() -> None:
    """Wheels leave it out."""
    outside = {module for module in importers("efim_lab") if not within(module, "efim_lab")}
    assert outside == set()


def test_the_two_leaves_meet_in_one_module() -> None:
    assert importers("model_runtime") & importers("kv_store") == {"efim_ls.completion.models.kv_persistence"}


def test_only_the_stores_entrance_knows_its_disk_and_its_team() -> None:
    outside = {module for module in importers("kv_store.disk") if not within(module, "kv_store.disk")}
    assert outside == {"kv_store.open", "efim_ls.commands.cache"}
    shared = {module for module in importers("kv_store.shared") if not within(module, "kv_store.shared")}
    assert shared == {"kv_store.open", "efim_ls.commands.team_cache"}
    above = ("kv_store.open", "kv_store.store", "kv_store.memory", "kv_store.notes", "kv_store.writer")
    assert {m for m in importers(*above) if within(m, "kv_store.disk", "kv_store.shared")} == set()


def test_the_store_needs_little() -> None:
    known = {*sys.stdlib_module_names, "numpy", "xxhash", "kv_store", *SHARED}
    found = {each.split(".")[0] for module in MODULES if within(module, "kv_store") for each in imported_by(module)}
    assert found <= known


def test_the_store_knows_no_tensors() -> None:
    """What blocks are made of, their codec alone knows."""
    words = r"layers?|(kv_)?heads?|head_dim|dimensions?|tensors?|shapes?|rotar\w+|rotat\w+|fp32|bf16|int8|float\d+"
    sources = sorted((ROOT / "kv_store").rglob("*.py"))
    found = {
        (p.name, word[0])
        for p in sources
        for word in re.finditer(rf"(?<!_store\.)\b({words})\b", p.read_text(), re.I)
    }
    assert sources and found == set()


def test_coverage_is_measured_in_rooms_that_are_there() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    assert {*tools["coverage"]["run"]["source_pkgs"]} <= set(ROOMS)
