"""What requests of a session know of the modules that its documents import."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from efim_ls.session.session import Session
from efim_ls.settings import Settings
from efim_ls.text.document import Change
from tests.unit.modules.conftest import write
from tests.waiting import HANG

TEXT = "import made_up\nmade_up.fi"


def no_model(settings: Settings, progress: object) -> Any:
    raise AssertionError("no test here loads a model")


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """A session in a folder with an environment in which one package is installed."""
    site = tmp_path / ".venv" / "lib" / "python3.99" / "site-packages"
    write(site, {"made_up.py": "first = 1"})
    write(tmp_path, {".venv/pyvenv.cfg": "home = nowhere\nversion = 3.99.1\n"})
    session = Session(no_model)
    session.configure(Settings(persist=False))
    session.work_in([tmp_path.as_uri()])
    yield session
    assert session.engine.close(HANG)


async def expected(session: Session, path: Path, language: str = "python", text: str = TEXT) -> list[str] | None:
    """Return the names that are known for the end of a new document."""
    document = session.open(path.as_uri(), language, text)
    await session.workspace.settled()
    modules = session.request_at(document, len(text), explicit=False).modules
    found = modules.expected(document.uri, text, len(text)) if modules else None
    return list(found.names.kinds) if found else None


async def test_a_request_knows_what_the_document_imports(session: Session, tmp_path: Path) -> None:
    assert await expected(session, tmp_path / "a.py") == ["first"]
    assert await expected(session, tmp_path / "a.go", "go") is None


async def test_a_name_is_from_the_environment_in_the_folder(session: Session, tmp_path: Path) -> None:
    document = session.open((tmp_path / "a.py").as_uri(), "python", TEXT)
    await session.workspace.settled()
    modules = session.request_at(document, len(TEXT), explicit=False).modules
    assert modules
    found = modules.expected(document.uri, TEXT, len(TEXT))
    assert found
    assert found.source("first") == f"from made_up in {os.path.join('.venv', 'lib', 'python3.99', 'site-packages')}"


async def test_a_document_that_is_off_is_not_looked_at(session: Session, tmp_path: Path) -> None:
    session.configure(Settings(persist=False, disabled_files=("a.py",)))
    assert await expected(session, tmp_path / "a.py") is None


async def test_another_folder_has_another_environment(session: Session, tmp_path: Path) -> None:
    assert await expected(session, tmp_path / "a.py") == ["first"]
    session.work_in([(tmp_path / "elsewhere").as_uri()])
    assert await expected(session, tmp_path / "b.py") is None


async def test_what_is_imported_later_is_known_once_the_cursor_rests(session: Session, tmp_path: Path) -> None:
    document = session.open((tmp_path / "a.py").as_uri(), "python", "")
    session.edit(document, [Change(TEXT)])
    session.workspace.index_document(document)
    await session.workspace.settled()
    modules = session.request_at(document, len(TEXT), explicit=False).modules
    assert modules
    assert modules.expected(document.uri, TEXT, len(TEXT))
