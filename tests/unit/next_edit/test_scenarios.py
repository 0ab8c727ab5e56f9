"""Scenarios that are cut out of a small history, and how what is offered is judged."""

from __future__ import annotations

import re
from pathlib import Path

from efim_lab.gate.next_edit.fit import examples
from efim_lab.gate.next_edit.histories import Repository
from efim_lab.gate.next_edit.measure import by_rules, figures, measure
from efim_lab.gate.next_edit.scenarios import EditScenario, scenarios
from tests.unit.commits import commit

BEFORE = "a = load(1)\nb = load(2)\nc = load(3)\nd = open(n)\ne = open(n)\nf = open(n)\n"
AFTER = BEFORE.replace("load", "read").replace("open(n)", "open(n, x)", 2)
CARRIED = "".join(f"{name} = get({name}).value\n" for name in ("one", "two", "three"))
CALLED = "".join(f"show({name}, old)\n" for name in ("four", "five", "six"))
SIGNATURE = """class Shelf:
    def load(self, path{0}):
        return path

    def save(self, path{0}):
        return path


def main(shelf, cache):
    shelf.load("a"{1})
    shelf.save("a")
"""


def cases_of(folder: Path, before: str, after: str) -> list[EditScenario]:
    """The scenarios of a commit that rewrites a file."""
    for text in (before, after):
        commit(folder, {"a.py": text})
    return list(scenarios(Repository(folder), 10))


def test_a_commit_tells_what_should_be_offered_and_where_nothing(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, BEFORE, AFTER)
    assert [(case.kind, len(case.first), dict(case.then)) for case in cases] == [
        ("three", 2, {2: "c = read(3)"}),
        ("rename", 1, {1: "b = read(2)", 2: "c = read(3)"}),
        ("two", 2, {}),
    ]
    after_two = figures(measure(cases), "three", "two")
    assert (after_two.found, after_two.wrong, after_two.loud, after_two.precision) == (1.0, 0.0, 1.0, 0.5)


def test_a_name_that_the_commit_leaves_nowhere_is_no_reason_to_be_silent(tmp_path: Path) -> None:
    before = "def read(path):\n    size = path.size\n    return path\n"
    gone = "def read(file):\n    size = stat(file)\n    return file, size\n"
    left = "def read(file):\n    size = stat(path)\n    return path\n"
    for after, kinds in ((gone, []), (left, ["one"])):
        cases = cases_of(tmp_path, before, after)
        assert [case.kind for case in cases if case.kind in ("one", "two", "rename")] == kinds


def test_changes_that_differ_are_told_by_their_template(tmp_path: Path) -> None:
    after = re.sub(r"get\((\w+)\).value", r"await get(\1)", CARRIED)
    after += re.sub(r"show\((\w+), old\)", r"view(new, \1)", CALLED, count=2)
    after += "seek(7, all)\nseek(8, all)\n"
    cases = cases_of(tmp_path, f"{CARRIED}{CALLED}find(7)\nfind(8)\n", after)
    assert [(case.kind, [each.line for each in case.first], dict(case.then)) for case in cases] == [
        ("transform", [0, 1], {2: "three = await get(three)"}),
        ("pair", [3, 4], {}),
    ]
    found = figures(measure(cases), "transform", "pair")
    assert (found.found, found.wrong, found.loud, found.precision) == (1.0, 0.0, 1.0, 0.5)


def test_a_rule_is_fitted_to_the_scenarios_of_its_kinds(tmp_path: Path) -> None:
    after = re.sub(r"get\((\w+)\).value", r"await get(\1)", CARRIED)
    cases = cases_of(tmp_path, CARRIED, after)
    right = [[any(each.right) for each in examples(rule, cases[0])] for rule in ("transform", "repeat")]
    assert right == [[True, True], []]


def test_a_changed_definition_is_told_with_what_its_calls_became(tmp_path: Path) -> None:
    every = cases_of(tmp_path, SIGNATURE.format("", ""), SIGNATURE.format(", cache", ", cache"))
    cases = [case for case in every if case.kind in ("signature", "definition")]
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
    after = "def load(path, mode):\n    return path\n\n\na = [\n    load(1)\n]\n"
    assert [case.kind for case in cases_of(tmp_path, before, after)] == []
