"""Scenarios that are cut out of a small history, and how what is offered is judged."""

from __future__ import annotations

import subprocess
from pathlib import Path

from efim_lab.next_edit.histories import Repository
from efim_lab.next_edit.measure import by_rules, figures, measure
from efim_lab.next_edit.scenarios import scenarios

BEFORE = "a = load(1)\nb = load(2)\nc = load(3)\nd = open(n)\ne = open(n)\nf = open(n)\n"
AFTER = BEFORE.replace("load", "read").replace("open(n)", "open(n, x)", 2)


SIGNATURE = """class Shelf:
    def load(self, path{0}):
        return path

    def save(self, path{0}):
        return path


def main(shelf, cache):
    shelf.load("a"{1})
    shelf.save("a")
"""


def commit(repository: Path, *texts: str) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        subprocess.run(["git", *who, "-C", str(repository), *arguments], check=True, capture_output=True)

    git("init")
    for text in texts:
        (repository / "a.py").write_text(text, "utf-8")
        git("add", "a.py")
        git("commit", "-m", "a")


def test_a_commit_tells_what_should_be_offered_and_where_nothing(tmp_path: Path) -> None:
    commit(tmp_path, BEFORE, AFTER)
    cases = list(scenarios(Repository(tmp_path), 10))
    assert [(case.kind, len(case.first), dict(case.then)) for case in cases] == [
        ("three", 2, {2: "c = read(3)"}),
        ("rename", 1, {1: "b = read(2)", 2: "c = read(3)"}),
        ("two", 2, {}),
    ]
    after_two = figures(measure(cases), "three", "two")
    assert (after_two.found, after_two.wrong, after_two.loud, after_two.precision) == (1.0, 0.0, 1.0, 0.5)


def test_a_changed_definition_is_told_with_what_its_calls_became(tmp_path: Path) -> None:
    commit(tmp_path, SIGNATURE.format("", ""), SIGNATURE.format(", cache", ", cache"))
    cases = [case for case in scenarios(Repository(tmp_path), 10) if case.kind in ("signature", "definition")]
    assert [(case.kind, case.first[0].line, dict(case.then)) for case in cases] == [
        ("signature", 1, {9: '    shelf.load("a", cache)'}),
        ("definition", 4, {}),
    ]
    rows = measure(cases)
    assert [(row.rule, row.verdict) for row in rows] == [("signature", "found"), ("signature", "wrong")]
    assert figures(by_rules(rows, ("signature",)), "signature", "definition").precision == 0.5
    assert figures(by_rules(rows, ("repeat",)), "signature", "definition").precision == 0.0


def test_a_call_that_was_changed_otherwise_tells_nothing(tmp_path: Path) -> None:
    before = "def load(path):\n    return path\n\n\na = load(1)\n"
    commit(tmp_path, before, "def load(path, mode):\n    return path\n\n\na = [\n    load(1)\n]\n")
    assert [case.kind for case in scenarios(Repository(tmp_path), 10)] == []
