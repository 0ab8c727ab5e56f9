"""Held-out lines typed key by key: which lines, what a typist takes, and what that saves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.evaluation.typist.cursor_kinds import CursorKind, kind_of
from efim_lab.gate.evaluation.typist.figures import VisitedLine, figures, saved_more
from efim_lab.gate.evaluation.typist.keys import TypedKey, ask_heuristic, key_at, type_line
from efim_lab.gate.evaluation.typist.known_words import WorkspaceWords, makes_unknown_word
from efim_lab.gate.evaluation.typist.levels import LEVELS, at_level, figures_by_level
from efim_lab.gate.evaluation.typist.lines import LONGEST_TYPED, TypedLine, choose_lines, nearest_open, whole_text
from efim_lab.gate.evaluation.typist.measurement import report
from efim_lab.gate.evaluation.typist.report import table
from efim_lab.gate.evaluation.typist.typists import TYPISTS, by_hand, visits, whole, words
from efim_lab.gate.evaluation.typist.whole_files import (
    RestOfLine,
    draw_cursors,
    whole_file_differences,
    whole_file_figures,
)
from efim_ls.request import Answer

LINE = "total = count(items)"


def line_of(text: str, row: int = 0, path: str = "a.py") -> TypedLine:
    """The line `row` of a text."""
    return next(each for each in choose_lines([CodeDocument(path, text)], 1000) if each.row == row)


def opened(*texts: str) -> tuple[CodeDocument, ...]:
    """Documents with these texts."""
    return tuple(CodeDocument(f"{number}.py", text) for number, text in enumerate(texts))


def typed(shown: dict[int, str], line: TypedLine | None = None) -> list[TypedKey]:
    """The keys of a line with something shown before some of them."""
    line = line or line_of(f"{LINE}\nprint(total)\n")
    return type_line("server", line, (), lambda _, cursor, __: Answer(shown.get(cursor - line.start, "")))


def test_packages_and_their_files_take_turns() -> None:
    sizes = {"big/a.py": 50, "big/b.py": 50, "big/c.py": 2, "small/a.py": 9, "top.py": 9}
    documents = [CodeDocument(path, "x = 1\n" * size) for path, size in sizes.items()]
    lines = choose_lines(documents, 24)
    packages = [package_of(each.document) for each in lines]
    assert {name: packages.count(name) for name in ("big", "small", "")} == {"big": 8, "small": 8, "": 8}
    files = [each.document.path for each in lines if package_of(each.document) == "big"]
    assert {name: files.count(name) for name in sorted(set(files))} == {"big/a.py": 3, "big/b.py": 3, "big/c.py": 2}
    assert choose_lines(documents[::-1], 10) == lines[:10]
    assert len(choose_lines(documents, 1000)) == sum(sizes.values())


TEXTS = st.lists(st.text(' \tab_(=é#"', max_size=9) | st.just("z" * (LONGEST_TYPED + 1)), max_size=20).map("\n".join)


@given(TEXTS)
def test_a_line_is_typed_in_its_whole_file(text: str) -> None:
    written = [line for line in text.split("\n") if line.strip() and len(line) <= LONGEST_TYPED]
    lines = choose_lines([CodeDocument("a.py", text)], 1000)
    assert sorted(text[line.start : line.end] for line in lines) == sorted(line.strip() for line in written)
    for line in lines:
        for cursor in range(line.start, line.end):
            before, after = line.text_at(cursor)[:cursor], line.text_at(cursor)[cursor:]
            assert before == text[:cursor] and after == text[line.line_end :] and after[:1] in ("", "\n")
            assert before + line.after(cursor) == text[: line.end] + after
            kind_of(line, cursor)  # whatever the text, broken strings too


def test_the_nearest_files_are_open_the_nearest_last() -> None:
    paths = (
        "p/b/mine.py",
        "p/b/next.py",
        "p/b/other.py",
        "p/b/zoo.py",
        "p/b/c/deep.py",
        "p/top.py",
        "p/b/mine.rs",
        "q/b/next.py",
    )
    documents = [CodeDocument(path, f"text of {path}") for path in (*paths, "p/b/empty.py")]
    documents[-1:] = [CodeDocument("p/b/long.py", "x" * 200_001), CodeDocument("p/b/empty.py", "")]
    line = line_of("text of p/b/mine.py", path="p/b/mine.py")
    expected = [f"text of {path}" for path in ("p/top.py", "p/b/c/deep.py", *paths[3:0:-1])]
    assert [each.text for each in nearest_open(line, documents, 9)] == expected
    assert [each.text for each in nearest_open(line, documents, 2)] == expected[-2:]
    assert nearest_open(line, documents, 0) == ()


@pytest.mark.parametrize(
    ("text", "path", "kinds"),
    [
        ("ab.c (d)", "a.py", "s w e d e e e e"),
        ("x = 'a.b' # c", "a.py", "s e e e e q q q q e e q q"),
        ('x = """\na.b\n"""', "a.py:1", "q q q"),
        ('f("a" "b")', "a.py", "s e e q q e e q q e"),
        ("x = '", "a.py", "s e e e e"),
        ("let s = 'a.b'; // c", "a.ts", "s w w e e e e e e q q q q e e e e q q"),
        ("# a.b", "a.sh", "s q q q q"),
        ("a # b", "a.ts", "s e e e e"),
    ],
)
def test_where_the_cursor_is(text: str, path: str, kinds: str) -> None:
    names: dict[str, CursorKind] = {
        "s": "start of line",
        "w": "inside a word",
        "d": "after a dot",
        "q": "in a string or comment",
        "e": "elsewhere",
    }
    name, _, row = path.partition(":")
    line = line_of(text, int(row or 0), name)
    assert [kind_of(line, cursor) for cursor in range(line.start, line.end)] == [
        names[each] for each in kinds.split()
    ]


def test_a_place_is_named_as_the_server_judges_it_from_what_is_typed_and_what_stands_around() -> None:
    text = 'class Shop(Base):\n    """Sells."""\n    size = 12 + x.y\n'
    keys = {row: type_line("server", line_of(text, row), (), lambda *_: Answer("")) for row in range(3)}
    assert [keys[0][at].place for at in (0, 2, 6, 8, 11)] == ["start of line"] * 2 + ["new name"] * 2 + ["argument"]
    assert [keys[1][at].place for at in (0, 3, 9)] == ["start of line", "docstring", "docstring"]
    assert [keys[2][at].place for at in (7, 8, 14)] == ["value", "number", "attribute"]
    [*_, last] = type_line("server", line_of("a = 'b' // c", path="a.ts"), (), lambda *_: Answer(""))
    assert last.place == "comment"


def test_a_text_is_typed_without_the_indentation_that_comes_with_a_new_line() -> None:
    text = "if x:\n    y  = 1\n\n  z\n"
    line = whole_text(CodeDocument("a.py", text))
    keys = type_line("server", line, (), lambda line, cursor, _: Answer(line.text_at(cursor)[-1:]))
    assert [key.pressed for key in keys] == [*"if x:", "\n    ", *"y  = 1", "\n", "\n  ", "z"]
    assert [key.shown for key in keys][:3] == ["", "i", "f"]  # nothing stands below the cursor
    assert [(key.line, key.column, key.typed) for key in keys[5:7]] == [(1, 5, "if x:"), (2, 4, "    ")]
    shown = {4: ":\n    y", 11: "  = 1\n\n"}
    keys = type_line("server", line, (), lambda _, cursor, __: Answer(shown.get(cursor, "")))
    assert [(each.entered, each.presses) for each in visits(keys, whole)[4:]] == [(3, 1), (6, 1), (1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("typed", "suggested", "makes"),
    [
        ("x = attem", "plementation", True), ("x = attem", "pts", False), ("x = attem", "p", True),
        ("x = ", "attemplementation", False), ("x = attem", ".y", False), ("x = Str", "ingIO", False),
        ("x = bel", "owed", False), ("x = far", "aways", False), ("retu", "rn", False),
        ("attemp = attem", "p", False),
    ],
)  # fmt: skip
def test_a_word_that_a_suggestion_makes_stands_somewhere_or_not(typed: str, suggested: str, makes: bool) -> None:
    line = line_of(f"attempts = 1\n{typed}q\nbelowed = 2\n", 1)
    assert makes_unknown_word(line, line.start + len(typed), suggested, {"faraways"}) == makes


def test_words_of_other_files_of_the_package_are_known() -> None:
    texts = {"p/a.py": "one", "p/b.py": "two", "q/c.py": "three"}
    documents = [CodeDocument(path, text) for path, text in texts.items()]
    words = WorkspaceWords(documents)
    assert (words.beside(documents[0]), words.in_any(documents[1:])) == ({"two"}, {"two", "three"})


def test_a_typist_of_whole_suggestions_takes_what_is_right_to_its_end() -> None:
    keys = typed({0: "total = sum(", 2: "tal", 8: "c", 9: "ount(items)\nprint(", 13: "x"})
    found = visits(keys, whole)
    assert [
        (visit.key.column, visit.entered, visit.presses, visit.completed) for visit in found if visit.completed
    ] == [
        (2, 3, 1, 3),
        (9, 11, 1, 11),  # goes on below the line, whose end is the end of typing
    ]
    assert sum(visit.entered for visit in found) == len(LINE)
    assert [visit.key.is_right for visit in found if visit.key.shown] == [False, True, True, True]


def test_a_typist_of_words_also_takes_right_words_that_save_two_keys() -> None:
    keys = typed({0: "total = sum(", 12: "t(it)", 13: "(x"})
    found = [(visit.key.column, visit.entered, visit.presses) for visit in visits(keys, words) if visit.completed]
    assert found == [(0, 8, 3)]  # `total`, ` `, `= `; `t(` would save none, nor would `(`
    assert all(visit.presses == visit.entered == 1 for visit in visits(keys, by_hand))


def test_a_first_word_is_right_if_it_ends_where_that_of_the_file_does() -> None:
    shown = ("total", "total =", "tot", "totally", "", "total = sum(")
    found = [typed({0: text})[0].is_first_word_right for text in shown]
    assert found == [True, True, False, False, False, True]
    assert typed({5: " = count"})[5].is_first_word_right and not typed({5: " = coun"})[5].is_first_word_right
    assert typed({19: ")"})[19].is_first_word_right and not typed({14: "("})[14].is_first_word_right


def test_wrong_characters_that_stay_on_the_screen_count_once() -> None:
    shown = {0: "total = sum(x)", 1: "otal = sum(x)", 2: "tal = sum(x) + 1", 4: "l = sum(x)", 5: " - 1"}
    found = [visit.new_wrong for visit in visits(typed(shown), by_hand)]
    assert found[:6] == [len("sum(x)"), 0, len(" + 1"), 0, len("sum(x)"), len("- 1")]
    assert sum(found) == sum(found[:6])


def test_figures_come_from_sums_over_files() -> None:
    one, two = typed({0: "total = ", 8: "sum"}), typed({})
    lines = [VisitedLine("a.py", visits(one, whole)), VisitedLine("b.py", visits(two, whole))]
    found = figures(lines)
    assert found.keys == 13 + 20
    assert found.completed and found.completed.value == 8 / 40
    assert found.saved and (found.saved.value, found.saved.low, found.saved.high) == (7 / 40, 0, 7 / 20)
    assert found.shown and found.shown.value == 2 / 33
    assert found.right and found.right.value == 1 / 2 and found.first_word and found.first_word.value == 1 / 2
    assert found.wrong_characters and found.wrong_characters.value == 3 / 2
    nothing = figures([replace(line, visits=[]) for line in lines])
    assert (nothing.completed, nothing.shown, nothing.right) == (None, None, None)
    assert nothing.wrong_characters and nothing.wrong_characters.value == 0
    more = saved_more(lines, [VisitedLine("a.py", visits(two, whole)), VisitedLine("b.py", visits(one, whole))])
    assert more and (more.value, more.low, more.high) == (0, -7 / 20, 7 / 20)


def test_the_heuristic_reads_the_whole_file_and_the_others() -> None:
    text = "first = alpha\nfir\nfirst = beta\nsecond\n"
    line = line_of(text, 1)
    assert ask_heuristic(line, line.end, ()).text == "st = alpha"
    assert ask_heuristic(line_of("fir\nfirst = beta\nfirst = c"), 3, ()).text == "st = beta"
    assert ask_heuristic(line_of("x fir\nfirst firm"), 5, ()).text == "st"
    assert ask_heuristic(line_of("fir"), 3, opened("fire", "first = far\nfirm", "fo")).text == "st = far"
    assert ask_heuristic(line_of("x fir"), 5, opened("a fire", "a first", "fo")).text == "st"


SURE = Answer("ab(cd", hidden=" ef)", words=(("ab", 0.9), ("(cd", 0.7), (" ef", 0.5), (")", 0.9)))


def test_what_another_level_would_show_is_told_from_the_words() -> None:
    key = key_at("server", line_of("ab(cd ef)"), 0, SURE)
    for least, shown in {0.0: "ab(cd ef)", 0.6: "ab(cd", 0.7: "ab", 0.95: ""}.items():
        cut = at_level(key, least)
        assert (cut.shown, cut.shown + cut.hidden, cut.right) == (shown, "ab(cd ef)", 9)
    assert at_level(replace(key, words=()), 0.95).shown == "ab(cd"


def test_every_level_has_its_figures() -> None:
    line = line_of("ab(cd ef)")
    keys = type_line("server", line, (), lambda _, cursor, __: SURE if cursor == 0 else Answer(""))
    found = figures_by_level([keys])
    assert list(found) == list(LEVELS)
    saved = {least: found[least]["whole"].saved for least in (0.0, 0.6, 0.7)}
    assert {least: each and each.value for least, each in saved.items()} == {0.0: 8 / 9, 0.6: 4 / 9, 0.7: 1 / 9}
    assert figures_by_level([typed({0: "total"})]) == {}
    arms = report("one", {"server": [keys]}, {"server": [RestOfLine(line, 0, "")]})
    assert arms.arms["server"].levels == found and "| 25%: server " in table([arms])


def test_cursors_in_whole_files_are_judged_by_the_rest_of_their_line() -> None:
    lines = choose_lines([CodeDocument("a.py", f"  {LINE}  \n" * 30)], 30)
    cursors = draw_cursors(lines)
    assert all(line.start <= cursor < line.end for line, cursor in zip(lines, cursors, strict=True))
    assert len({cursor - line.start for line, cursor in zip(lines, cursors, strict=True)}) > 5
    asked = [RestOfLine(lines[0], lines[0].start + 8, text) for text in ("count(items)", "count(", "sum", "")]
    found = whole_file_figures(asked)
    assert found.exact and found.exact.value == 1 / 4
    assert found.first_word and found.first_word.value == 2 / 4
    assert found.similarity and 1 / 4 < found.similarity.value < 2 / 4


def test_tables_have_a_row_for_each_arm_and_the_heuristic_once() -> None:
    keys = typed({0: "total = "})
    arms = {arm: [keys] for arm in ("heuristic", "server", "heuristic, 4 files open", "server, 4 files open")}
    places = {arm: [RestOfLine(line_of(LINE), 0, LINE)] * 7 for arm in arms}
    one = report("one", arms | {"server": [typed({0: "total"})]}, places)
    assert one.arms["server"].typists.keys() == TYPISTS.keys()
    assert one.saved_more.keys() == {"server", "server, 4 files open"}
    title, *_ = out = table([one, replace(one, model="two")]).split("\n")
    assert title == "Typing 1 lines of 1 files, 20 keys, 95 % intervals over files"
    assert "server, one less heuristic, keys saved, paired: whole -15.0" in table([one, replace(one, model="two")])
    labels = [row.split("|")[1].strip() for row in out if row.startswith("| ")]
    assert labels.count("heuristic") == 2 and labels.count("server, one") == labels.count("server, two") == 2
    assert labels.count("after a dot: server, 4 files open, two") == 1 and "Python: heuristic" not in labels
    alone = table([one])
    assert "`suggestions`" not in alone
    assert "| server, 4 files open " in alone and "7 cursors in whole files" in alone
    languages = report("one", {"server": [keys, typed({}, line_of("let x", path="a.ts"))]}, places)
    assert "| TypeScript: server " in table([languages])


def test_what_the_repository_brings_is_paired_with_each_arm_that_does_not_know_it() -> None:
    arms = ("heuristic", "server", "server, repository", "server, 1 files open", "server, repository, 1 files open")
    better, line = typed({0: "total = "}), line_of(LINE)
    keys = {arm: [better if "repository" in arm else typed({0: "total"})] for arm in arms}
    places = {arm: [RestOfLine(line, 8, "count(items)" if "repository" in arm else "sum")] * 2 for arm in arms}
    found = report("one", keys, places)
    assert {arm: list(gains) for arm, gains in found.gains.items()} == {
        arm: ["server", "server, 1 files open"] for arm in arms if "repository" in arm
    }
    gain = found.gains["server, repository"]["server, 1 files open"]
    whole = gain.saved["whole"]
    assert whole and whole.value == 3 / 20
    assert gain.whole_files.exact and gain.whole_files.exact.value == 1
    assert gain.whole_files.first_word and gain.whole_files.first_word.value == 1
    assert gain.whole_files.similarity and 0.5 < gain.whole_files.similarity.value < 1
    row = next(row for row in table([found]).split("\n") if row.startswith("| server, repository, less server, 1"))
    assert [cell.split()[0] for cell in row.split("|")[2:-1]] == ["+100.0", "+100.0", "+0.733", "+15.0", "+15.0"]
    assert "What knowing the repository brings" not in table([report("one", {"server": [better]}, places)])


def test_differences_in_whole_files_are_paired_by_place() -> None:
    lines = choose_lines([CodeDocument(f"{name}.py", LINE) for name in "ab"], 2)
    right, wrong = ([RestOfLine(line, 8, text) for line in lines] for text in ("count(items)", ""))
    mixed = [right[0], wrong[1]]
    found = whole_file_differences(mixed, wrong).exact
    assert found and (found.value, found.low, found.high) == (0.5, 0, 1)
    assert whole_file_differences(mixed, mixed) == whole_file_differences(right, right)
    with pytest.raises(ValueError, match="shorter"):
        whole_file_differences(mixed, wrong[:1])
