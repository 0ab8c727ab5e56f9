"""Calls in other files follow a definition: which files, in which order, and what becomes of an offer there."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.next_edit.elsewhere import Elsewhere

GOLDEN = Path(__file__).parents[2] / "golden" / "calls_elsewhere"


@dataclass(frozen=True)
class Case:
    name: str
    files: Mapping[str, str]
    expect: str = ""
    asked: str = ""
    open: tuple[str, ...] = ()


CASES = {
    f"{path.stem}: {raw['name']}": Case(**raw)
    for path in sorted(GOLDEN.glob("*.toml"))
    for raw in tomllib.loads(path.read_text("utf-8"))["case"]
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_what_is_offered_in_other_files(tmp_path: Path, case: Case) -> None:
    elsewhere = Elsewhere(tmp_path, case.files)
    for name in case.open:
        elsewhere.open(name)
    assert await elsewhere.drawn(case.asked) == case.expect
