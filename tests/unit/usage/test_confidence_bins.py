"""Which suggestions are counted by confidence, and when one counts as kept."""

from __future__ import annotations

import pytest

from efim_ls.request import Request
from efim_ls.session.documents import OpenDocument
from efim_ls.text.document import Change
from efim_ls.usage.confidence_bins import BinCount, ConfidenceBin
from efim_ls.usage.counters import Counters
from efim_ls.usage.suggestions import Offers

SAID = "call(one, two)"


class Editor:
    """One open document, and what is counted of its suggestions by confidence."""

    def __init__(self, reports_shown: bool = True) -> None:
        self.counted: list[tuple[ConfidenceBin, BinCount]] = []
        self.counters = Counters(add_to_bin=lambda bin, count: self.counted.append((bin, count)))
        self.offers = Offers(self.counters)
        self.document = OpenDocument(self.counters, "a", "python", "")
        if reports_shown:
            self.offers.show(self.offer(None, "an earlier one"))

    def offer(self, confidence: float | None = 0.42, text: str = SAID) -> str:
        request = Request("a", self.document.text, len(self.document.text))
        [number] = self.offers.offer(self.document.retention, "python", request, [text], confidence)
        return number

    def insert(self, text: str) -> None:
        end = self.document.position(len(self.document.text), "utf-16")
        self.document.edit(Change(text, end, end), "utf-16")

    def accept(self, number: str, units: int | None = None) -> None:
        self.offers.accept(number, units, "utf-16")

    def remove(self, characters: int) -> None:
        size = len(self.document.text)
        start, end = (self.document.position(place, "utf-16") for place in (size - characters, size))
        self.document.edit(Change("", start, end), "utf-16")

    def close(self) -> list[BinCount]:
        """What was counted once the document is closed, all of it in one bin."""
        self.document.close()
        assert {bin for bin, _ in self.counted} <= {ConfidenceBin("python", 40)}
        return [count for _, count in self.counted]


@pytest.fixture
async def editor() -> Editor:
    return Editor()


async def test_what_is_shown_and_passed_by_is_counted_as_shown(editor: Editor) -> None:
    number = editor.offer()
    assert editor.close() == []
    for _ in range(2):
        editor.offers.show(number)
    assert editor.close() == ["shown"]


async def test_what_is_accepted_and_still_there_is_counted_as_kept(editor: Editor) -> None:
    number = editor.offer()
    editor.offers.show(number)
    editor.insert(SAID)
    editor.accept(number)
    assert editor.counted[1:] == [], "not before it is known"
    assert editor.close() == ["shown", "kept"]


@pytest.mark.parametrize(("removed", "kept"), [(7, ["shown", "kept"]), (8, ["shown"]), (14, ["shown"])])
async def test_half_of_what_is_accepted_has_to_stay(editor: Editor, removed: int, kept: list[BinCount]) -> None:
    number = editor.offer()
    editor.insert(SAID)
    editor.accept(number)
    editor.remove(removed)
    assert editor.close() == kept


async def test_parts_and_remainders_count_once_in_the_bin_of_the_first_offer(editor: Editor) -> None:
    first = editor.offer()
    editor.offers.show(first)
    editor.insert("call(")
    editor.accept(first, 5)
    left = editor.offer(0.9, SAID[5:])
    editor.offers.show(left)
    editor.insert(SAID[5:])
    editor.accept(left)
    assert editor.close() == ["shown", "kept"]


async def test_what_is_typed_out_is_not_kept(editor: Editor) -> None:
    number = editor.offer()
    editor.offers.show(number)
    editor.insert(SAID)
    assert editor.close() == ["shown"]


async def test_without_a_confidence_nothing_is_counted(editor: Editor) -> None:
    number = editor.offer(None)
    editor.offers.show(number)
    editor.insert(SAID)
    editor.accept(number)
    assert editor.close() == []


async def test_a_client_that_never_reports_what_is_shown_teaches_nothing() -> None:
    editor = Editor(reports_shown=False)
    editor.offer()
    number = editor.offer(text="other")
    editor.insert("other")
    editor.accept(number)
    assert editor.close() == []


async def test_the_first_suggestion_of_a_client_that_reports_counts_too() -> None:
    editor = Editor(reports_shown=False)
    editor.offers.show(editor.offer())
    assert editor.close() == ["shown"]
