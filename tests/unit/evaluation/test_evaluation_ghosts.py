"""What a person sees while typing: which ghosts are new, how much of each is right, and how they are counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.ghosts.counting import Ghost, ghosts, refuted_in_word
from efim_lab.gate.evaluation.ghosts.figures import GhostFigures, ghost_arms
from efim_lab.gate.evaluation.ghosts.report import table
from efim_lab.gate.evaluation.ghosts.rows import write_rows
from efim_lab.gate.evaluation.ghosts.texts import read_texts
from efim_lab.gate.evaluation.typist.keys import RecordedAnswer, TypedKey, type_line
from efim_lab.gate.evaluation.typist.levels import LEVELS
from efim_lab.gate.evaluation.typist.lines import choose_lines, whole_text
from efim_ls.request import Answer

LINE = "total = count(items)"
GOLDEN = Path(__file__).parents[2] / "golden" / "tasks" / "texts.toml"


def typed(shown: Mapping[int, str], text: str = f"{LINE}\nprint(total)\n", path: str = "a.py") -> list[TypedKey]:
    """The keys of a text's first line, with something shown before some of them."""
    line = next(each for each in choose_lines([CodeDocument(path, text)], 1000) if each.row == 0)
    return type_line("server", line, (), lambda _, cursor, __: Answer(shown.get(cursor, "")))


def seen(found: Sequence[Ghost]) -> list[tuple[str, str, int]]:
    return [(each.text, each.kind, len(each.keys)) for each in found]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({0: "tot", 1: "ot", 2: "t"}, [("tot", "right", 3)]),  # typed along with, it stays one
        ({0: "tot", 1: "otal = ", 2: "tal = s"}, [("tot", "right", 3)]),  # it grows
        ({0: "total", 1: "otal", 2: "tab"}, [("total", "right", 2), ("tab", "wrong", 1)]),  # its end changes
        ({0: "total", 1: "ot"}, [("total", "right", 1), ("ot", "right", 1)]),  # its end is cut off
        ({0: "test", 1: "est", 2: "st"}, [("test", "wrong", 2), ("st", "wrong", 1)]),  # refuted
        ({0: "total", 2: "tal"}, [("total", "right", 1), ("tal", "right", 1)]),  # it goes and comes back
        ({0: "to", 1: "o", 2: "tal"}, [("to", "right", 2), ("tal", "right", 1)]),  # all of it is typed
        ({4: "l = sum", 5: " = sum", 6: "= sum"}, [("l = sum", "begins", 3)]),
        ({0: "to = 1"}, [("to = 1", "wrong", 1)]),  # the first word goes on
        ({16: "ems)\nprint(", 17: "ms)\nprint("}, [("ems)\nprint(", "right", 2)]),
        ({}, []),
    ],
)  # fmt: skip
def test_a_ghost_is_new_unless_it_is_what_is_left(
    shown: dict[int, str], expected: list[tuple[str, str, int]]
) -> None:
    assert seen(ghosts(typed(shown))) == expected


def test_a_ghost_stays_over_a_new_line_with_its_indentation() -> None:
    shown = {5: "\n    return", 10: "return 1", 11: "eturn 1"}
    text = whole_text(CodeDocument("a.py", "if a:\n    return 1\n"))
    keys = type_line("server", text, (), lambda _, cursor, __: Answer(shown.get(cursor, "")))
    (ghost,) = ghosts(keys)
    assert (ghost.text, ghost.kind, len(ghost.keys), ghost.has_several_lines) == ("\n    return", "right", 3, False)


SHOWN = st.lists(st.text("to ", max_size=4) | st.integers(1, 5), min_size=12, max_size=12)


@given(SHOWN)
def test_there_are_as_many_new_ghosts_as_the_text_on_the_screen_changes(shown: list[str | int]) -> None:
    text = "tottooo tot o"
    suggested = {at: text[at : at + each] if isinstance(each, int) else each for at, each in enumerate(shown)}
    keys, changes, left = typed(suggested, text), 0, ""
    for key in keys:
        changes += bool(key.shown) and not (left and key.shown.startswith(left))
        left = key.shown[1:] if key.shown[:1] == key.pressed else ""
    found = ghosts(keys)
    assert len(found) == changes
    assert [key for each in found for key in each.keys] == [key for key in keys if key.shown]
    for each in found:
        at = keys.index(each.keys[0])
        assert (each.kind == "right") == text[at:].startswith(each.text)


def figures_of(*lines: list[TypedKey]) -> GhostFigures:
    return ghost_arms(lines)["server"].all


def test_figures_count_ghosts_and_the_keys_that_they_stand_before() -> None:
    shown = {
        0: "test",
        1: "otal = x",
        2: "tal = x",
        5: " = 1",
        6: "= 1",
        8: "c",
        14: "items)\nprint(total)",
        17: "ms",
        19: "(",
    }
    one, two = typed(shown), typed({}, path="b.py")
    found = figures_of(one, two)
    values = {name: getattr(each, "value", each) for name, each in vars(found).items()}
    assert values == {
        **{"keys": 40, "ghosts": 7, "new": 7 / 40, "new_wrong": 3 / 40, "under_wrong": 4 / 40},
        **{"right": 3 / 7, "begins": 1 / 7, "wrong": 3 / 7, "single": 2 / 7, "several": 1 / 7, "several_right": 1},
        **{"unknown_word": 0, "unknown_right": None, "wrong_keys": 1, "wrong_once": 2 / 3},
    }
    assert found.new and (found.new.low, found.new.high) == (0, 7 / 20)
    nothing = figures_of(two)
    assert (nothing.wrong, nothing.wrong_keys, nothing.wrong_once) == (None, None, None)


def test_a_ghost_is_counted_where_it_appears() -> None:
    places = ghost_arms([typed({0: "tot", 1: "ot", 7: "c", 9: "x"})])["server"].places
    assert {name: each.ghosts for name, each in places.items() if each.ghosts} == {**{"start of line": 1, "value": 2}}
    assert sum(each.keys for each in places.values()) == len(LINE)


def test_a_word_that_stands_nowhere_is_counted_where_the_ghost_made_it() -> None:
    found = figures_of(typed({2: "tters", 9: "ount", 11: "nterfoil"}))
    assert found.unknown_word and found.unknown_word.value == 2 / 3
    assert found.unknown_right and found.unknown_right.value == 0


def test_other_levels_have_other_ghosts() -> None:
    answer = Answer("total", hidden=" = x", words=(("total", 0.5), (" =", 0.8), (" x", 0.9)))
    line = choose_lines([CodeDocument("a.py", LINE)], 1)[0]
    keys = type_line("server", line, (), lambda _, cursor, __: answer if cursor == 0 else Answer(""))
    arm = ghost_arms([keys])["server"]
    assert list(arm.levels) == list(LEVELS)
    right = {least: (each.ghosts, each.right and each.right.value) for least, each in arm.levels.items()}
    assert (right[0.0], right[0.5], right[0.6]) == ((1, 0), (1, 1), (0, None))
    out = table({"one": {"server": arm}, "two": {"server": arm}})
    assert out.count("| server, one ") == out.count("| server, two ") == 2 and "| 50%: server, two " in out
    assert "| start of line: server, one " in out and "| comment: " not in out
    assert "`suggestions`" not in table({"one": ghost_arms([typed({0: "t"})])})


def test_letters_that_refute_ghosts_are_counted_within_their_word() -> None:
    keys = typed({0: "x", 1: "x", 2: "tal", 4: "x", 5: "x", 8: "x"})
    assert refuted_in_word(keys)[:11] == [0, 1, 2, 2, 2, 3, 0, 0, 0, 1, 1]


def test_keys_are_written_as_json_lines(tmp_path: Path) -> None:
    answer = RecordedAnswer(
        *("y = ",),
        **{"confidence": 0.5, "hidden": "2\n", "words": (("y", 0.9), (" =", 0.8), (" 2", 0.7))},
        tokens=(("y", 0.9), (" = 2", 0.5), ("\n", 0.4), ("", 0.3)),
    )
    line = next(each for each in choose_lines([CodeDocument("a.py", "if x:\n    y = 1\nz\n")], 9) if each.row == 1)
    keys = type_line("server", line, (), lambda _, cursor, __: answer if cursor == line.start else Answer(""))
    write_rows(tmp_path / "rows", {"one": [keys]})
    rows = [json.loads(row) for row in (tmp_path / "rows").read_text().splitlines()]
    assert rows[0] == {
        **{"model": "one", "arm": "server", "file": "a.py", "package": "", "language": "python"},
        **{"line": 2, "column": 4, "kind": "start of line", "place": "start of line", "typed": "    "},
        **{"after": "y = 1\nz\n", "right": 4, "makes_unknown_word": False, "begun": "", "candidate": "y = 2\n"},
        **{"shown": "y = ", "hidden": "2\n", "confidence": 0.5, "words": [["y", 0.9], [" =", 0.8], [" 2", 0.7]]},
        **{"reason": None, "tokens": [["y", 0.9], [" = 2", 0.5], ["\n", 0.4], ["", 0.3]]},
        **{"is_new": True, "stays": False, "refuted": 0},
    }
    assert [(row["column"], row["after"], row["begun"]) for row in rows[1:3]] == [
        *((5, " = 1\nz\n", "y"), (6, "= 1\nz\n", "")),
    ]
    with pytest.raises(WorkError, match="rows cannot be written .*: check the folder"):
        write_rows(tmp_path / "none" / "rows", {})


def test_the_texts_that_are_typed_and_their_project_are_python(tmp_path: Path) -> None:
    texts = read_texts(GOLDEN)
    assert (len(texts.typed), len(texts.project)) == (12, 13)
    for each in (*texts.typed, *texts.project):
        compile(each.text, each.path, "exec")
    assert sum(len(whole_text(each).cursors) for each in texts.typed) == 8634
    bad = tmp_path / "bad.toml"
    for text, complaint in {
        "[[text]]\npath = 'a'": "damaged .*'text'",
        "[": "damaged",
        "": "has no text to type",
    }.items():
        bad.write_text(text)
        with pytest.raises(WorkError, match=complaint):
            read_texts(bad)
    with pytest.raises(WorkError, match=r"none\.toml cannot be read"):
        read_texts(tmp_path / "none.toml")
