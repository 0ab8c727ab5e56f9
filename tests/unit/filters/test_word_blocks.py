"""Blocks that words open and close: what stands there is not cut, and nothing is closed twice, in any nesting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.filters.closed_below import closed_below
from efim_ls.completion.filters.indentation import indentation
from efim_ls.completion.filters.place import Filter, place_at
from efim_ls.completion.filters.syntax.errors import syntax
from efim_ls.text.brackets import brackets_of, close

# Lines that open a block, and those that close it, by language; lines that do neither, though they have such words.
BLOCKS = {
    "ruby": (
        ("def first(row)", "end"), ("if row.nil?", "end"), ("rows.each do |row|", "end"), ("while row do", "end"),
        ("size = case row\nwhen 1", "end"), ("begin", "end"), ("class Row < Base", "end"), ("until(done)", "end"),
        ("rows.map { |row|", "}"), ("private def last", "end"), ("total ||= unless row", "end.to_i"),
    ),
    "shellscript": (
        ('if [ "$#" -gt 1 ]; then', "fi"), ("for row in $rows; do", "done"), ("while read -r row; do", "done < rows"),
        ("case $row in\n-h | --help)", "esac"), ("first() {", "}"), ("( until true; do", "done )"),
        ("if ! test -f x\nthen", "fi"),
    ),
    "c": (
        ("#ifdef CHECKED", "#endif"), ("#  if defined(A)", "#  endif"), ("if (row) {", "}"), ("#ifndef B", "#endif"),
    ),
    "php": (
        ("if ($row):", "endif;"), ("foreach ($rows as $row):", "endforeach;"), ("while ($row) {", "}"),
        ("switch ($row):\ncase 1:", "endswitch;"), ("for ($i = 0; $i < 9; $i++):", "endfor;"),
    ),
}  # fmt: skip
LINES = {
    "ruby": (
        "return if row.nil?", "row.end", "show(if: 1, end: row.begin)", "# if not, end", 'puts "if #{row} end"',
        "names = %w[if do end]", "size = /(end|if/ =~ row", "double(row) unless done", "def size = 1",
    ),
    "shellscript": (
        "echo if done fi", "rows=${#row}", 'echo "done: esac"', "# then fi", "fi_count=1",
        "path=${row##*/}", "awk 'if (a) { done' x",
    ),
    "c": ("show(row);", "#define SIZE 1", "/* #if */", "#include <row.h>", 'puts("#endif");'),
    "php": ("$if = 1;", "$row->endif();", "if ($row) show($row);", "// if (a):", "echo 'endif';", "# endif"),
}  # fmt: skip


@st.composite
def nested(draw: st.DrawFn, language: str, depth: int = 0) -> list[str]:
    lines, indent = list[str](), "  " * depth
    for _ in range(draw(st.integers(1, 3))):
        if depth < 3 and draw(st.booleans()):
            opened, closed = draw(st.sampled_from(BLOCKS[language]))
            lines += [indent + each for each in opened.split("\n")]
            lines += [*draw(nested(language, depth + 1)), indent + closed]
        else:
            lines.append(indent + draw(st.sampled_from(LINES[language])))
    return lines


@pytest.mark.parametrize("language", BLOCKS)
@given(data=st.data())
def test_each_word_closes_the_block_that_it_should(language: str, data: st.DataObject) -> None:
    opened, code = list(brackets_of("", language).signs), "\n".join(data.draw(nested(language)))
    closed = close(opened, brackets_of(code, language).signs)
    assert opened == [] and all(opener for _, opener in closed)


@pytest.mark.parametrize("language", BLOCKS)
@given(data=st.data())
def test_what_is_missing_is_not_cut_and_what_stands_below_is(language: str, data: st.DataObject) -> None:
    """A line that neither opens nor closes is missing; a model says it, and then all that stands below."""
    lines = data.draw(nested(language))
    whole = [number for number, line in enumerate(lines) if line.strip() in LINES[language]]
    at = data.draw(st.sampled_from(whole or [0]))
    said, indent = lines[at].lstrip(), len(lines[at]) - len(lines[at].lstrip())
    if not whole:
        return
    above, below = "".join(f"{each}\n" for each in lines[:at]), "".join(f"\n{each}" for each in lines[at + 1 :])
    place = place_at(f"{above}{' ' * indent}{below}", len(above) + indent, language)
    assert closed_below(said, place) == said
    closing = "\n".join([said, *(line for line in lines[at + 1 :] if line.strip() not in LINES[language])][:2])
    kept = closed_below(closing, place)
    own = close([], brackets_of(kept, language).signs)
    assert kept.startswith(said) and not any(opener is None for _, opener in own)


@pytest.mark.parametrize(
    ("filtered", "language"),
    [*((syntax, each) for each in BLOCKS), *((indentation, each) for each in ("php", "ruby", "shellscript"))],
)
@given(data=st.data())
def test_code_that_is_right_is_left_alone(filtered: Filter, language: str, data: st.DataObject) -> None:
    lines = data.draw(nested(language))
    at = data.draw(st.integers(0, len(lines) - 1))
    above, said = "".join(f"{each}\n" for each in lines[:at]), lines[at]
    place = place_at(above, len(above), language)
    assert filtered(said, place) == said
