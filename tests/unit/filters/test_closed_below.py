"""Nothing is closed that is closed further on, whatever a model says, in code of any shape and in real files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.answerers.cleaning import clean
from efim_ls.completion.filters.closed_below import closed_below
from efim_ls.completion.filters.place import place_at
from efim_ls.completion.filters.syntax.readable import readable

ROOT = Path(__file__).parents[3]
PAIRS = {")": "(", "]": "[", "}": "{"}
REAL = {
    "python": "efim_ls/text/*.py efim_ls/session/*.py",
    "typescript": "editor_clients/vscode/src/*.ts",
}


def unmatched(code: str) -> int:
    """Return how many closers close nothing; each closes the nearest opener of its kind."""
    opened, count = "", 0
    for sign in code:
        if sign in PAIRS.values():
            opened += sign
        elif sign in PAIRS:
            at = opened.rfind(PAIRS[sign])
            count, opened = (count + 1, opened) if at < 0 else (count, opened[:at])
    return count


words = st.sampled_from(("a", "b", "count", "n"))
simple = words.map("{}();".format) | st.builds("{} = {}[{}];".format, words, words, words)


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """Lines of a block in a language with braces, each indented."""
    lines, indent = list[str](), "  " * depth
    for _ in range(draw(st.integers(1, 3))):
        if depth < 3 and draw(st.booleans()):
            opened, closed = draw(
                st.sampled_from((("if (a) {", "}"), ("f(() => {", "});"), ("x = [", "];"), ("f(", ");")))
            )
            lines += [indent + opened, *draw(blocks(depth + 1)), indent + closed]
        else:
            lines.append(indent + draw(simple))
    return lines


@st.composite
def cut_lines(draw: st.DrawFn) -> tuple[str, str, str]:
    """The text on both sides of a cursor in a line that was cut, and what a model says there: often what follows."""
    lines = draw(blocks())
    at = draw(st.integers(0, len(lines) - 1))
    cut = draw(st.integers(len(lines[at]) - len(lines[at].lstrip()), len(lines[at])))
    begun, below = lines[at][:cut], lines[at + 1 :]
    rest = draw(st.sampled_from(("", lines[at][cut:], ")", "}", "]);")))
    said = [lines[at][cut:], *draw(st.sampled_from(([], below[:1], below[:4], ["}", "});"], draw(blocks()))))]
    extra = draw(st.text("(){}[]\n ;ab", max_size=6))
    left, right = "\n".join([*lines[:at], begun]), "\n".join([rest, *below])
    return left, right, "\n".join(said) + extra


@given(cut_lines(), st.sampled_from(("typescript", "java", "")))
def test_no_suggestion_leaves_a_closer_with_nothing_to_close(drawn: tuple[str, str, str], language: str) -> None:
    left, right, said = drawn
    place = place_at(left + right, len(left), language)
    cleaned, _ = clean(said, place, 12)
    assert unmatched(left + cleaned + right) <= unmatched(left + right)


@given(cut_lines())
def test_nor_does_any_beginning_of_one(drawn: tuple[str, str, str]) -> None:
    left, right, said = drawn
    place = place_at(left + right, len(left), "typescript")
    for end in range(len(said)):
        shown = closed_below(said[:end], place)
        assert said.startswith(shown)
        assert unmatched(left + shown + right) <= unmatched(left + right)


def real_files(language: str) -> list[str]:
    return [path.read_text("utf-8") for each in REAL[language].split() for path in sorted(ROOT.glob(each))]


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_line_that_was_cut_is_kept_as_it_was_written(language: str) -> None:
    """A filter that took what is right would be worse than none."""
    texts, judged = real_files(language), 0
    for text in texts:
        start = 0
        for number, line in enumerate(text.splitlines(keepends=True)):
            end, cut = start + len(line.rstrip()), start + (len(line) - len(line.lstrip()) + len(line)) // 2
            if cut < end and number % 3 == 0:  # of many
                said = text[cut:end]
                assert closed_below(said, place_at(text[:cut] + text[end:], cut, language)) == said
                judged += 1
            start += len(line)
    assert judged > 500


@pytest.mark.parametrize(
    ("left", "right", "language", "said", "kept"),
    [
        ("def f():\n    x = ", "\n    return x\n", "python", "g(1,\n  2", "g(1,)"),
        ("class A {\n  b() {\n    ", "\n    c();\n  }\n}\n", "typescript", "return () => {", "return () => {}"),
        ("func f() {\n\t", "\n\tg()\n}\n", "go", "h := []int{1, 2", "h := []int{1, 2}"),
        ("def f():\n    ", "\n        return 1\n", "python", "return 2", ""),
        ("class A:\n    def f(", "\n", "python", "self) -> None:", "self) -> None:"),
        (
            "def f():\n    if a == '",
            "\n        return 1\n",
            "python",
            "b':\n        c()\n    d()",
            "b':\n        c()",
        ),
        ("def f(:\n    x = ", "\n", "python", "g(1,", "g(1,"),
    ],
)
def test_what_is_open_is_closed_or_left_out(left: str, right: str, language: str, said: str, kept: str) -> None:
    assert readable(said, place_at(left + right, len(left), language)) == kept
