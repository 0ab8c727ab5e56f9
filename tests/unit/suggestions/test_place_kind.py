"""Kinds of places: what a person would call them, and that code in quotes is none."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.filters.place import place_at
from efim_ls.completion.suggestions.place_kind import PROSE, PlaceKind, Spot, spot_of

AT = "‸"


def spot(marked: str, language: str = "python") -> Spot:
    """Return the spot of the cursor, which is marked."""
    return spot_of(place_at(marked.replace(AT, ""), marked.index(AT), language))


@pytest.mark.parametrize(
    ("marked", "kind", "stub"),
    [
        ("‸", "start of line", ""), ("    ret‸", "start of line", "ret"), ("x = 1\nfo‸\n", "start of line", "fo"),
        ("a = [\n    one‸", "start of line", "one"), ("größe‸", "start of line", "größe"),
        ("import ‸", "import", ""), ("    from os.pa‸", "import", "pa"), ("from os import (pa‸", "import", "pa"),
        ("importe‸", "start of line", "importe"), ("fromage = ‸", "value", ""),
        ("def ‸", "new name", ""), ("async def na‸", "new name", "na"), ("class Na‸(Base):", "new name", "Na"),
        ("define na‸", "elsewhere", "na"), ("def area(sha‸", "argument", "sha"),
        ("self.‸", "attribute", ""), ("self.wid‸", "attribute", "wid"), ("x = f(a).b.c‸", "attribute", "c"),
        ("f(‸", "argument", ""), ("f(a, wid‸", "argument", "wid"), ("x = [‸", "argument", ""),
        ("x = {a: 1, b‸", "argument", "b"), ("x[ke‸", "argument", "ke"),
        ("x = ‸", "value", ""), ("x = wid‸", "value", "wid"), ("f(a, wid=‸", "value", ""),
        ("f(wid=he‸", "value", "he"),
        ("x += ‸", "value", ""), ("if x == ‸", "elsewhere", ""), ("if x != y‸", "elsewhere", "y"),
        ("if x <= ‸", "elsewhere", ""), ("if a and b‸", "elsewhere", "b"), ("x: in‸", "elsewhere", "in"),
        ("x = 1‸", "number", "1"), ("x = 1.‸", "number", ""), ("x = 1.5e3‸", "number", "5e3"),
        ("x = .5‸", "number", "5"), ("f(-0xf‸", "number", "0xf"), ("x[1‸", "number", "1"),
        ("return 1_0‸", "number", "1_0"),
        ("x1‸", "start of line", "x1"), ("x = y.z1‸", "attribute", "z1"), ("x = a1‸", "value", "a1"),
        ("x = '‸", "string", ""), ("x = 'a.b‸'", "string", "b"), ('x = "it\'s ‸', "string", ""),
        ("x = 'a' + ‸", "elsewhere", ""), ("x = 'it\\'s ‸", "string", ""), ("x = 'a\\\\' + y.‸", "attribute", ""),
        ("f('a', b‸)", "argument", "b"), ('x = f"{wid‸', "string", "wid"), ('x = f"{a}" + b‸', "elsewhere", "b"),
        ("x = rb'a‸", "string", "a"), ("x = '# a‸'", "string", "a"), ("import_module('a.b‸", "string", "b"),
        ("# a.b‸", "comment", "b"), ("x = 1  # 'a‸", "comment", "a"), ("x = '#' + y  # a‸", "comment", "a"),
        ('"""‸', "docstring", ""), ('def f():\n    """Return a‸', "docstring", "a"), ('    r"""a‸', "docstring", "a"),
        ('"""One.\n\nx = y.‸\n"""\n', "docstring", ""), ('x = """a\n  b.c‸', "string", "c"),
        ("'''a\nimport os\nb‸", "docstring", "b"), ('"""a"""\nb.c‸', "attribute", "c"),
        ('"""a\n""" + b.‸', "attribute", ""),
        ('x = """a""" + y‸', "elsewhere", "y"), ('"""a""" """b‸', "string", "b"),
        ('"""It\'s "so": ‸', "docstring", ""),
        ("x = 'a\ny.‸", "attribute", ""),
    ],
)  # fmt: skip
def test_a_cursor_in_python_is_at(marked: str, kind: PlaceKind, stub: str) -> None:
    assert spot(marked) == Spot(kind, stub)
    assert spot(marked, "") == Spot(kind, stub), "a document without a language is taken for Python"


@pytest.mark.parametrize(
    ("marked", "language", "kind", "stub"),
    [
        ("let wid‸", "typescript", "new name", "wid"), ("shape.wid‸", "go", "attribute", "wid"),
        ("f(a, ‸", "c", "argument", ""), ("x = ‸", "rust", "value", ""), ("x = 1‸", "java", "number", "1"),
        ("x = 'a.b‸", "ruby", "string", "b"), ('x = "a" + y.‸', "java", "attribute", ""),
        ("x = `a.b‸", "typescript", "string", "b"), ("x = `a` + y.‸", "typescript", "attribute", ""),
        ("// a.b‸", "c", "comment", "b"), ("x; /* a‸", "c", "comment", "a"),
        ("# a.b‸", "shellscript", "comment", "b"),
        ("#!a‸", "shellscript", "comment", "a"), ("#define AB‸", "c", "new name", "AB"),
        ("x = 'http://a‸", "typescript", "string", "a"), ('"""\nx.‸', "rust", "attribute", ""),
        ("x // a‸", "python", "elsewhere", "a"), ("/**\n * a.b‸", "typescript", "comment", "b"),
        ("/** a */\nx.a‸", "typescript", "attribute", "a"), ("/*\na */ x.a‸", "go", "attribute", "a"),
        ("x = 'a/**/*.ts'\nx.a‸", "javascript", "attribute", "a"),
    ],
)  # fmt: skip
def test_a_cursor_in_another_language_is_at(marked: str, language: str, kind: PlaceKind, stub: str) -> None:
    assert spot(marked, language) == Spot(kind, stub)


class Piece(NamedTuple):
    """A part of a program: what stands between `opened` and `closed` is text in quotes, a comment or code."""

    opened: str
    inside: str
    closed: str
    kind: PlaceKind | None


def texts_without(*left_out: str, alphabet: str) -> st.SearchStrategy[str]:
    return st.text(alphabet, max_size=12).filter(lambda text: not any(each in text for each in left_out))


TRIPLES = '"""', "'''"
code = st.builds(Piece, st.just(""), st.text("ab_1 .,=([{)]}:+", min_size=1, max_size=8), st.just(" "), st.none())
line_ends = st.just(Piece("", "", "\n", None))
comments = st.builds(
    Piece, st.just("#"), texts_without(*TRIPLES, alphabet="ab.=(#'\"\\ "), st.just("\n"), st.just("comment")
)


@st.composite
def strings(draw: st.DrawFn) -> Piece:
    quote, other = draw(st.permutations("'\""))
    pieces = st.sampled_from(["a", ".", " = ", "(", "#", "{b}", "\\\\", f"\\{quote}", other, "\\n", f"{other} "])
    inside = "".join(draw(st.lists(pieces, max_size=6)))
    if any(each in f"{quote}{inside}{quote}" for each in TRIPLES):
        inside = ""
    return Piece(draw(st.sampled_from(["", "f", "rb", "u"])) + quote, inside, f"{quote} ", "string")


@st.composite
def long_strings(draw: st.DrawFn) -> Piece:
    quotes, is_docstring = draw(st.sampled_from(TRIPLES)), draw(st.booleans())
    inside = draw(texts_without(*TRIPLES, alphabet="ab.=(#'\" \n")).strip("'\"")
    lead = draw(st.sampled_from(["\n", "\n    "])) if is_docstring else "x = "
    prefix = draw(st.sampled_from(["", "r", "f"]))
    return Piece(f"{lead}{prefix}{quotes}", inside, f"{quotes} ", "docstring" if is_docstring else "string")


@given(st.lists(st.one_of(code, line_ends, comments, strings(), long_strings()), max_size=8))
def test_code_in_quotes_is_never_judged_as_code_nor_code_as_text(pieces: list[Piece]) -> None:
    text = "".join(each.opened + each.inside + each.closed for each in pieces)
    place = 0
    for each in pieces:
        place += len(each.opened)
        for cursor in range(place, place + len(each.inside) + 1):
            kind = spot_of(place_at(text, cursor, "python")).kind
            assert kind == each.kind if each.kind else kind not in PROSE, text[:cursor]
        place += len(each.inside) + len(each.closed)


@given(st.text("ab1_.('\"# \n", max_size=30), st.sampled_from(["python", "go", ""]))
def test_a_stub_is_the_end_of_what_stands_before_the_cursor(text: str, language: str) -> None:
    found = spot_of(place_at(text, len(text), language))
    assert text.endswith(found.stub)
    assert found.stub.replace("_", "a").isalnum() or not found.stub
    before = text[: len(text) - len(found.stub)][-1:]
    assert not (before.isalnum() or before == "_")
