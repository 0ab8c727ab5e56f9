"""What a corpus repeats is weighed down: a package's imports of itself, and paragraphs of docstrings."""

import ast
from textwrap import dedent

from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training.corpus.python.repetition import IMPORT_FILES, PARAGRAPH_COPIES, without_repetition

OWN, OTHERS = "from shop.models import Order\n", "from typing import Any\n"
FILE = '''\
"""The summary of a module.

A paragraph that many files of the package say again, word for word.

One of its own, {number}, which is long enough to be counted among the others.
"""

def total():
    """Add.

    Parameters of all estimators, which are explained once and for all elsewhere.
    """
    return {number}
'''


def files(text: str, count: int, package: str = "shop") -> list[CodeDocument]:
    return [
        CodeDocument(f"{package}-1.0/{package}/part_{number}.py", text.replace("{number}", str(number)))
        for number in range(count)
    ]


def test_imports_of_a_package_by_its_own_files_are_kept_in_some_of_them() -> None:
    found = without_repetition(files(OWN + OTHERS + "\nx = {number}\n", 8 * IMPORT_FILES))
    kept = sum(OWN in document.text for document in found)
    assert IMPORT_FILES / 2 < kept < 2 * IMPORT_FILES
    assert all(OTHERS in document.text for document in found)
    assert found == without_repetition(files(OWN + OTHERS + "\nx = {number}\n", 8 * IMPORT_FILES))


def test_what_few_files_import_and_what_others_import_stays() -> None:
    few, others = files(OWN, IMPORT_FILES), files(OWN, 8 * IMPORT_FILES, "client")
    assert without_repetition(few) == few
    assert without_repetition(others) == others


def test_relative_imports_count_for_their_own_distribution() -> None:
    some = files("from . import models\n\nx = {number}\n", IMPORT_FILES)
    other = files("from . import models\n\nx = {number}\n", IMPORT_FILES, "bank")
    assert without_repetition([*some, *other]) == [*some, *other]


def test_a_paragraph_stands_twice_in_the_corpus() -> None:
    found = without_repetition(files(FILE, PARAGRAPH_COPIES + 2))
    whole, cut = found[:PARAGRAPH_COPIES], found[PARAGRAPH_COPIES:]
    assert whole == files(FILE, PARAGRAPH_COPIES)
    for number, document in enumerate(cut, PARAGRAPH_COPIES):
        wanted = f'''\
            """The summary of a module.

            One of its own, {number}, which is long enough to be counted among the others.
            """

            def total():
                """Add.

                """
                return {number}
            '''
        assert document.text == dedent(wanted)


WORDS = st.sampled_from(
    ["x = 1", '"""', "'''", "  ", "", "def f():", "    return 1", OWN.strip(), "a long line " * 6]
)


@given(st.lists(st.lists(WORDS, max_size=12), min_size=3, max_size=5))
def test_what_is_python_stays_python(texts: list[list[str]]) -> None:
    made = [CodeDocument(f"shop-1.0/shop/{n}.py", "\n".join(lines)) for n, lines in enumerate(texts)]
    for before, after in zip(made, without_repetition(made), strict=True):
        try:
            ast.parse(before.text)
        except SyntaxError:
            continue
        ast.parse(after.text)
