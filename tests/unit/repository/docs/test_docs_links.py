"""Links in the documents lead somewhere, and the files that developers' pages name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PACKAGES = ("efim_ls", "model_runtime", "kv_store", "efim_lab", "editor_clients", "tests", "benchmarks")
FOREIGN = {"node_modules", ".git", ".venv", ".venv-gpu", ".pytest_cache", "__pycache__", "build", "dist"}


def below(folder: Path) -> Iterator[Path]:
    """Yield what a folder holds of this repository, however deep."""
    for path in (path for path in folder.iterdir() if path.name not in FOREIGN):
        yield path
        if path.is_dir():
            yield from below(path)


PAGES = sorted(path for path in below(ROOT) if path.suffix == ".md")
BLOCK = re.compile(r"^```.*?^```$|^ {4}.*?$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w.-]+\.(?:py|toml|json|lua))`")
CREATED = {
    "dist",
    "tests/lab/passed.sha256",
    "editor_clients/vscode/dist/efim-ls.vsix",
    "hashes.json",
}  # by a command, by the server
SUBJECTS = ["daemon", "suggestions", "computing", "store"]  # of ARCHITECTURE, each with a page
DEVELOPERS = ["ARCHITECTURE.md", "CONTRIBUTING.md", *(f"docs/{each}.md" for each in SUBJECTS)]
PATHS = [path.as_posix() for package in PACKAGES for path in below(ROOT / package)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = page.parent / path if path else page
    return "://" in link or (target.exists() and (not heading or heading in anchors(target)))


def test_the_pages_are_found() -> None:
    assert {"README.md", "docs/editors.md", "editor_clients/neovim/README.md"} <= set(map(name, PAGES))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    links = LINK.findall(BLOCK.sub("", page.read_text("utf-8")))
    assert [link for link in links if not leads_somewhere(page, link)] == []


@pytest.mark.parametrize("page", DEVELOPERS)
def test_files_that_are_named_exist(page: str) -> None:
    named = {each.rstrip("/") for each in FILE.findall((ROOT / page).read_text("utf-8"))} - CREATED
    missing = {each for each in named if not (ROOT / each).exists()}
    assert named and {each for each in missing if not any(path.endswith(f"/{each}") for path in PATHS)} == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_in_our_packages_exist(page: Path) -> None:
    named = {each.rstrip("/") for each in FILE.findall(page.read_text("utf-8"))} - CREATED
    ours = {each for each in named if each.partition("/")[0] in PACKAGES}
    assert {each for each in ours if not (ROOT / each).exists()} == set()


@pytest.mark.parametrize("page", SUBJECTS)
def test_the_map_and_the_pages_beside_it_lead_to_each_other(page: str) -> None:
    assert f"](docs/{page}.md)" in (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert "](../ARCHITECTURE.md" in (ROOT / "docs" / f"{page}.md").read_text("utf-8")
