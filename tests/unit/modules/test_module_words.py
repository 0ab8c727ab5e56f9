"""What is known of modules tells which words may stand at a place, and which stand nowhere."""

from __future__ import annotations

import pytest

from efim_ls.completion.filters.place import place_of
from efim_ls.completion.suggestions.place_kind import spot_of
from efim_ls.completion.suggestions.words import stands_nowhere, words_at
from efim_ls.request import Request
from tests.unit.modules.conftest import Learn

FILES = {
    "made_up/__init__.py": "width = 1\nwidest = 2\ndef draw(shape, width_of=1): ...\nclass Shape:\n    area = 1\n",
    "made_up/wires.py": "",
    "open.py": "width = 1\ndef __getattr__(name): ...\n",
}
HEAD = "import open\nimport made_up\nfrom made_up import draw, Shape\nwiden = 1\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("made_up.wi", ["widest", "width", "wires"]),
        ("made_up.w", ["widest", "width", "wires"]),
        ("made_up.q", []),
        ("from made_up import wi", ["widest", "width", "wires"]),
        ("import made_up.wi", ["wires"]),
        ("Shape.a", ["area"]),
        ("open.wi", ["width", "widen"]),
        ("draw(x, wi", ["width_of", "widen"]),
        ("x = wi", ["widen"]),
        ("x = 'made_up.wi", ["widen"]),
    ],
)
def test_words_that_a_module_has(learn: Learn, line: str, words: list[str]) -> None:
    modules = learn(FILES, HEAD).view
    place = place_of(Request("", HEAD + line, len(HEAD + line), language="python", modules=modules))
    assert [each.text for each in words_at(spot_of(place), place).longer] == words


@pytest.mark.parametrize(
    ("line", "made", "rest", "lacks"),
    [
        ("made_up.wi", "dth", "", False),
        ("made_up.wi", "den", "", True),  # the file has it, and the module does not
        ("made_up._wi", "dth", "", False),  # of private names nothing is known
        ("from made_up import wi", "res", "", False),
        ("from made_up import wi", "den", "", True),
        ("import made_up.wi", "dth", "", True),
        ("Shape.ar", "ea", "", False),
        ("Shape.wi", "dth", "", True),
        ("open.wi", "thout", "", False),
        ("draw(wi", "dth_of", "=1)", False),
        ("draw(wi", "den", ")", False),
        ("draw(wi", "thout", ")", True),
        ("x = wi", "res", "", True),  # a submodule is no name in a module's source
        ("x = wi", "dest", "", False),  # some module has it
        ("x = Sha", "pe", "", False),
        ("x = wi", "thout", "", True),
        ("x = 'made_up.wi", "thout", "", False),
    ],
)
def test_a_word_that_modules_lack_stands_nowhere(learn: Learn, line: str, made: str, rest: str, lacks: bool) -> None:
    modules = learn(FILES, HEAD).view
    place = place_of(Request("", HEAD + line, len(HEAD + line), language="python", modules=modules))
    spot = spot_of(place)
    assert stands_nowhere(spot.stub + made, rest, spot, words_at(spot, place), place) is lacks
