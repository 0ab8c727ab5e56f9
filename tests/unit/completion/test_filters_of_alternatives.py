"""Several suggestions for one place: those that show nothing new are left out."""

from __future__ import annotations

import pytest

from efim_ls.completion.filters.chain import distinct
from efim_ls.completion.filters.place import Place

AT_LOGGER = Place("    logger.", "", "", "")
EMPTY = 'info("no data in %s yet", self.path)'
OVER_AND_OVER = "\n    ".join([EMPTY, *[f"logger.{EMPTY}"] * 3])
SHORT = "a()\n    else:\n    b()\n    else:\n    else:"


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["start()", "stop()"], ["start()", "stop()"]),
        (["", "stop()", "stop()"], ["stop()"]),
        (["start(a, b)", "start(a,b)\n", "start(a, c)"], ["start(a, b)", "start(a, c)"]),
        ([EMPTY, f"{EMPTY}\n    logger.{EMPTY}"], [EMPTY]),
        (["x = 1", OVER_AND_OVER], ["x = 1"]),
        ([OVER_AND_OVER], [OVER_AND_OVER]),
        (["x()", SHORT], ["x()", SHORT]),
        (["a()\n    b()", "a()\n    c()\n    b()"], ["a()\n    b()", "a()\n    c()\n    b()"]),
    ],
    ids=[
        "others are kept",
        "empty and equal ones are not",
        "blanks make no difference",
        "nor does a line said twice",
        "an alternative that says a line over and over",
        "which the first suggestion may",
        "as short lines may",
        "a line more is a difference",
    ],
)  # fmt: skip
def test_suggestions_that_add_nothing_are_left_out(texts: list[str], kept: list[str]) -> None:
    assert distinct(texts, AT_LOGGER) == kept
