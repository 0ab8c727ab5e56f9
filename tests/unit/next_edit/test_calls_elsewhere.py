"""Calls in other files follow a definition: which files, in which order, and what becomes of an offer there."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.access.rules import Rules
from efim_ls.settings import Settings
from efim_ls.workspace.imports import calling
from tests.unit.next_edit.elsewhere import Elsewhere

GOLDEN = Path(__file__).parents[2] / "golden" / "calls_elsewhere"


@dataclass(frozen=True)
class Case:
    name: str
    files: Mapping[str, str]
    expect: str = ""
    asked: str = ""
    open: tuple[str, ...] = ()


CASES = {
    f"{path.stem}: {raw['name']}": Case(**raw)
    for path in sorted(GOLDEN.glob("*.toml"))
    for raw in tomllib.loads(path.read_text("utf-8"))["case"]
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_what_is_offered_in_other_files(tmp_path: Path, case: Case) -> None:
    elsewhere = Elsewhere(tmp_path, case.files)
    for name in case.open:
        elsewhere.open(name)
    assert await elsewhere.drawn(case.asked) == case.expect


SHELF = "def load(path[-, mode-]):\n    return path\n"
TWO = 'from shelf import load\n\nload("a", 1)\nload("b", 2)\n'
ONE = 'from shelf import load\n\nload("c", 3)\n'


@pytest.fixture
def three(tmp_path: Path) -> Elsewhere:
    """A definition that was changed, and two files that call it."""
    return Elsewhere(tmp_path, {"shelf.py": SHELF, "app.py": TWO, "main.py": ONE})


def counted(elsewhere: Elsewhere) -> dict[str, int]:
    counts: Any = elsewhere.counters.report()["next_edits"]
    return counts


async def test_one_call_after_the_other_follows_in_one_file_after_the_other(three: Elsewhere) -> None:
    taken = list[tuple[str, int]]()
    while offer := await three.take():
        taken.append((offer.edit.uri, offer.edit.start))
    assert taken == [(three.uri("app.py"), 32), (three.uri("app.py"), 42), (three.uri("main.py"), 32)]
    assert three.open("app.py").text == 'from shelf import load\n\nload("a")\nload("b")\n'
    assert three.open("main.py").text == 'from shelf import load\n\nload("c")\n'


@given(st.lists(st.lists(st.sampled_from(["12", '"a, b"', "[1, (2)]", "x.y"]), max_size=3), min_size=1, max_size=3))
def test_what_follows_keeps_all_other_text(passed: list[list[str]]) -> None:
    def files(argument: str) -> dict[str, str]:
        calls = ["".join(f"load({each}{argument})  # {each}\n" for each in some) for some in passed]
        return {f"app{n}.py": f"from shelf import load\n\n{text}x = 1\n" for n, text in enumerate(calls)}

    async def follow(folder: Path) -> tuple[int, dict[str, str]]:
        elsewhere, taken = Elsewhere(folder, {"shelf.py": SHELF, **files(", 7")}), 0
        while await elsewhere.take():
            taken += 1
        return taken, {name: elsewhere.open(name).text for name in files("")}

    with TemporaryDirectory() as folder:
        taken, texts = asyncio.run(follow(Path(folder)))
    assert taken == sum(map(len, passed)) and texts == files("")


async def test_a_file_that_is_not_open_has_no_version_and_its_offer_keeps_its_id(three: Elsewhere) -> None:
    offer = await three.offered()
    assert offer and offer.document.version is None
    number, document = offer.number, three.open("app.py")
    again = await three.offered("app.py")
    assert again and (again.number, again.document, again.document.version) == (number, document, 1)
    three.offers.close_document(document.uri)
    three.offers.show(number)
    assert counted(three)["shown"] == 0


async def test_a_document_that_is_opened_keeps_the_offer_in_its_file(three: Elsewhere) -> None:
    offer = await three.offered()
    assert offer
    three.offers.close_document(offer.edit.uri)  # as a session does that opens it
    three.offers.show(offer.number)
    assert counted(three)["shown"] == 1


async def test_a_refused_call_is_not_offered_again(three: Elsewhere) -> None:
    for left in ('app.py: load("a"[-, 1-])', 'app.py: load("b"[-, 2-])', 'main.py: load("c"[-, 3-])'):
        assert await three.drawn() == left
        offer = await three.offered()
        assert offer
        three.offers.refuse(offer.number)
    assert await three.drawn() == ""


async def test_an_undone_call_is_refused(three: Elsewhere) -> None:
    offer = await three.take()
    assert offer and await three.drawn() == 'app.py: load("b"[-, 2-])'
    three.replace("app.py", offer.edit.start, 0, offer.edit.removed)
    assert await three.drawn("app.py") == 'app.py: load("b"[-, 2-])'
    assert await three.drawn("shelf.py") == 'app.py: load("b"[-, 2-])'


async def test_it_counts_as_shown_accepted_and_kept(three: Elsewhere) -> None:
    assert await three.take()
    assert counted(three) == {"shown": 1, "accepted": 1, "kept": 0}
    three.offers.close_document(three.uri("app.py"))
    assert counted(three) == {"shown": 1, "accepted": 1, "kept": 1}


async def test_an_undone_call_is_not_kept(three: Elsewhere) -> None:
    offer = await three.take()
    assert offer
    three.replace("app.py", offer.edit.start, 0, offer.edit.removed)
    three.offers.close_document(three.uri("app.py"))
    assert counted(three) == {"shown": 1, "accepted": 1, "kept": 0}


async def test_the_explanation_names_the_edit_of_the_definition(three: Elsewhere) -> None:
    offer = await three.offered()
    assert offer
    told = three.offers.explain(offer)
    assert (told["uri"], told["line"], told["rule"]) == (three.uri("app.py"), 3, "signature")
    changed = {"uri": three.uri("shelf.py"), "line": 1, "removed": ", mode", "added": ""}
    assert told["because"] == [changed]
    await three.take()
    offer = await three.offered()
    called = {"uri": three.uri("app.py"), "line": 3, "removed": ", 1", "added": ""}
    assert offer and three.offers.explain(offer)["because"] == [changed, called]


@pytest.mark.parametrize("name", ["shelf.py", "app.py", "other.py"])
async def test_nothing_is_offered_if_a_text_changes_meanwhile(three: Elsewhere, name: str) -> None:
    (three.folder / "other.py").write_text("pass\n")
    three.open("app.py")
    three.workspace.meanwhile = lambda: three.replace(name, 0, 0, "\n")
    assert await three.offered("shelf.py") is None


async def test_nothing_is_offered_if_another_text_was_opened_meanwhile(three: Elsewhere) -> None:
    def save_and_open() -> None:
        (three.folder / "app.py").write_text("pass\n")
        three.open("app.py")

    three.workspace.meanwhile = save_and_open
    assert await three.offered() is None


async def test_no_more_files_are_read_than_fit(three: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    (three.folder / "app.py").write_text("pass\n")
    monkeypatch.setattr(calling, "MOST_CALLING", 1)
    assert await three.offered() is None
    assert three.workspace.read == ["app.py"]


async def test_files_that_do_not_call_it_are_not_read(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, {"shelf.py": SHELF, "app.py": ONE, "main.py": "import os\n"})
    assert await elsewhere.take() and await elsewhere.offered() is None
    assert elsewhere.workspace.read == ["app.py"]


@pytest.mark.parametrize(
    "settings",
    [Settings(disabled_files=("app.py",)), Settings(disabled_files=("shelf.py",)), Settings(next_edit=False)],
)
async def test_nothing_is_offered_where_it_is_off(tmp_path: Path, settings: Settings) -> None:
    elsewhere = Elsewhere(tmp_path, {"shelf.py": SHELF, "app.py": ONE})
    elsewhere.documents.rules, elsewhere.offers.enabled = Rules(settings), settings.next_edit
    assert await elsewhere.offered() is None


async def test_a_definition_that_may_not_be_read_is_not_followed(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, {"shelf.py": SHELF, "app.py": ONE})
    assert await elsewhere.drawn("app.py") == 'app.py: load("c"[-, 3-])'
    elsewhere.open("shelf.py").out_of_step = True
    assert await elsewhere.offered("app.py") is None


def typed(folder: Path, *keys: str) -> Elsewhere:
    """Two definitions, of which the first has got a parameter key by key, or both in turn as by two cursors."""
    text = "def load(path, ):\n    return path\n\n\ndef keep(path, ):\n    return path\n"
    app = "from shelf import load\n\nx = 1\nload('a')\n"
    elsewhere = Elsewhere(folder, {"shelf.py": text, "app.py": app})
    for name in keys:
        at = elsewhere.open("shelf.py").text.index(f"{name}(path, ") + len(f"{name}(path, ")
        elsewhere.replace("shelf.py", at, 0, "x", pause=0.0)
    return elsewhere


async def test_nothing_is_offered_while_a_parameter_is_typed(tmp_path: Path) -> None:
    elsewhere = typed(tmp_path, "load")
    assert await elsewhere.offered() is None
    elsewhere.open("shelf.py").cursor = 0
    assert await elsewhere.drawn() == "app.py: load('a'{+, x+})"


async def test_nothing_is_offered_while_several_cursors_type(tmp_path: Path) -> None:
    elsewhere = typed(tmp_path, "keep", "load")
    elsewhere.open("shelf.py").cursor = 0
    assert await elsewhere.offered() is None


async def test_the_call_that_is_the_nearest_to_the_cursor_is_offered_where_it_is_looked_at(three: Elsewhere) -> None:
    three.open("app.py").cursor = len(TWO)
    assert await three.drawn("app.py") == 'app.py: load("b"[-, 2-])'


async def test_no_file_is_asked_for_where_the_definition_is_only_looked_at(three: Elsewhere) -> None:
    assert await three.take()
    asked = three.workspace.asked
    assert await three.offered("shelf.py") is None and three.workspace.asked == asked
