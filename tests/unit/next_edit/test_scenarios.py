"""Scenarios that are cut out of a small history, and how what is offered is judged."""

from __future__ import annotations

import subprocess
from pathlib import Path

from efim_lab.next_edit.histories import Repository
from efim_lab.next_edit.measure import figures, measure
from efim_lab.next_edit.scenarios import scenarios

BEFORE = "a = load(1)\nb = load(2)\nc = load(3)\nd = open(n)\ne = open(n)\nf = open(n)\n"
AFTER = BEFORE.replace("load", "read").replace("open(n)", "open(n, x)", 2)


def test_a_commit_tells_what_should_be_offered_and_where_nothing(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        subprocess.run(["git", *who, "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    git("init")
    for text in (BEFORE, AFTER):
        (tmp_path / "a.py").write_text(text, "utf-8")
        git("add", "a.py")
        git("commit", "-m", "a")
    cases = list(scenarios(Repository(tmp_path), 10))
    assert [(case.kind, len(case.first), dict(case.then)) for case in cases] == [
        ("three", 2, {2: "c = read(3)"}),
        ("rename", 1, {1: "b = read(2)", 2: "c = read(3)"}),
        ("two", 2, {}),
    ]
    after_two = figures(measure(cases), "three", "two")
    assert (after_two.found, after_two.wrong, after_two.loud, after_two.precision) == (1.0, 0.0, 1.0, 0.5)
