"""Golden cases: edits that were made, and what is offered next."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.rules.table import RULES
from efim_ls.text.outline import Importable
from tests.unit.edited import Edited, Marked

GOLDEN = Path(__file__).parents[2] / "golden" / "next_edit"


@dataclass(frozen=True)
class Case:
    name: str
    language: str
    document: str
    expect: str = ""
    order: str = "downwards"
    typed: bool = False
    importable: tuple[tuple[str, str, int], ...] = ()


CASES = {
    f"{path.stem}: {raw['name']}": (path.stem, Case(**raw))
    for path in sorted(GOLDEN.glob("*.toml"))
    for raw in tomllib.loads(path.read_text("utf-8"))["case"]
}


@pytest.mark.parametrize(("rule", "case"), CASES.values(), ids=CASES.keys())
def test_what_is_offered_after_edits(rule: str, case: Case) -> None:
    marked = Marked.read(case.document)
    edited = Edited(marked.before, case.language)
    for change in marked.changes if case.order == "downwards" else marked.changes[::-1]:
        edited.replace(change, by_keys=case.typed)
    edits = NextEdits(edited.history)
    unknown = edits.unknown_names(edited.document, edited.cursor)
    every = [Importable(*each) for each in case.importable]
    known = [each for each in every if (each.name or each.module.rpartition("/")[2]) in unknown]
    offered = edits.propose(edited.document, edited.cursor, known)
    assert (edited.drawn(offered) if offered else "") == case.expect
    if offered:
        assert offered.rule == rule
        assert edited.document.text[offered.start : offered.end] == offered.removed


def test_every_rule_has_golden_cases() -> None:
    assert {rule for rule, _ in CASES.values()} == set(RULES)
