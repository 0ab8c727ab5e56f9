"""Made-up packages, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from efim_ls.workspace.modules.environment import OWN_VERSION, Environment
from efim_ls.workspace.modules.table import ModuleTable
from tests.waiting import HANG

Learn = Callable[..., ModuleTable]


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), "utf-8")


def learned(table: ModuleTable, text: str, path: str = "") -> ModuleTable:
    """Return the table once it knows what a text refers to."""
    table.want(path, text)
    assert table.wait(HANG)
    return table


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of installed packages."""
    (folder := tmp_path / "site").mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path, site: Path) -> Environment:
    (library := tmp_path / "library").mkdir()
    return Environment(str(library), OWN_VERSION, (str(site),), is_whole=True)


@pytest.fixture
def learn(site: Path, environment: Environment) -> Learn:
    """Writes packages, and returns a table that knows what a text refers to of them."""

    def learn(files: Mapping[str, str], text: str) -> ModuleTable:
        write(site, files)
        return learned(ModuleTable(lambda: environment), text)

    return learn
