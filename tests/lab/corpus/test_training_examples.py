import textwrap

import pytest

from efim_lab.workshop.training.corpus.examples import ExampleCollector
from efim_lab.workshop.training.corpus.python.examples import snippets

MODULE = '''
def total(numbers):
    """Add numbers.

    >>> import math
    >>> numbers = [1, 2]
    >>> for number in numbers:
    ...     print(number)  # doctest: +SKIP
    1
    2
    >>> numbers
    [1, 2]

    Of floats as well:

    >>> total([1.5, 2.5])
    4.0
    >>> total("ab")
    Traceback (most recent call last):
    TypeError: unsupported operand
    """


class Sum:
    """A sum.

    Example::

        import math
        for x in range(3):
            Sum().add(x)

    .. code-block:: python
        :linenos:

        Sum().clear()

    .. code-block:: bash

        pip install total

    ```python
    with Sum() as s:
        s.add(1)
    ```

    The result::

        {"sum": 3}
    """
'''
PROGRAM = """\
import math
numbers = [1, 2]
for number in numbers:
    print(number)

total([1.5, 2.5])

with Sum() as s:
    s.add(1)

for x in range(3):
    Sum().add(x)

Sum().clear()
"""


def docstring(code: str) -> str:
    return f'"""Does this.\n\n{textwrap.indent(code, ">>> ")}"""\n'


def test_doctests_and_code_blocks_become_a_program():
    assert ExampleCollector(snippets).program(MODULE) == PROGRAM


def test_what_other_files_repeat_is_taken_once():
    collector = ExampleCollector(snippets)
    assert collector.program(MODULE)
    assert collector.program(MODULE) == ""


@pytest.mark.parametrize(("lines", "taken"), [(4, False), (5, True)])
def test_a_program_has_at_least_five_lines(lines: int, taken: bool):
    code = "".join(f"call({n})\n" for n in range(lines))
    assert ExampleCollector(snippets).program(docstring(code)) == (code if taken else "")


@pytest.mark.parametrize("text", ["x = 1\n", '"""Does >>> this\n', docstring("print 'a'\n" * 6), "def f(:\n"])
def test_without_examples_there_is_no_program(text: str):
    assert ExampleCollector(snippets).program(text) == ""
