"""Parts are fetched once, whole or not at all, and tests are told why one is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .fetching import part as parts
from .fetching.__main__ import entry
from .fetching.part import Missing, Part, run


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("EFIM_LS_EDITORS", str(tmp_path / "cache"))
    monkeypatch.setattr(parts, "RECORD", tmp_path / "editors.json")


def test_a_part_is_fetched_once():
    fetched = list[Path]()

    def fetch(folder: Path) -> None:
        fetched.append(folder)
        (folder / "program").touch()

    part = Part("some", "1", "program", fetch)
    assert part.obtain() == part.obtain()
    assert part.obtain().exists()
    assert len(fetched) == 1


def test_nothing_stays_of_a_fetch_that_fails(tmp_path: Path):
    def fetch(folder: Path) -> None:
        (folder / "half").touch()
        raise Missing("the registry is away")

    with pytest.raises(Missing, match="away"):
        Part("some", "1", "half", fetch).obtain()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_test_is_told_what_the_fetch_could_not_do():
    part = Part("some", "1", "program", lambda folder: None)
    with pytest.raises(Missing, match="was not fetched"):
        part.program_path()
    parts.RECORD.write_text(json.dumps(dict([entry(part)])), "utf-8")
    with pytest.raises(Missing, match="some-1 was fetched but holds no program"):
        part.program_path()


def test_a_tool_that_fails_says_why():
    with pytest.raises(Missing, match="status 2: no such thing"):
        run("sh", "-c", "echo no such thing >&2; exit 2")
