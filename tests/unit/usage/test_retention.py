"""What is counted of accepted text, whichever way an editor puts it into its document and tells of it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.request import Request
from efim_ls.session.documents import OpenDocument
from efim_ls.text.document import Change, Edit, Encoding
from efim_ls.usage.counters import Counters
from efim_ls.usage.suggestions import Offers, RetainedRange, RetentionTracker
from tests.waiting import eventually

ROOM = 12  # characters of a text that is edited: small, so that edits meet what is tracked
LATER = 3600.0  # seconds: what is accepted is counted as the document is closed

TEXT = "import a\nx = \nend\n"
CURSOR = TEXT.index("\nend")
SAID = "call(one, two)"
UTF_16: Encoding = "utf-16"


class Page:
    """One open document with a cursor, and what is counted of its suggestions."""

    def __init__(self, text: str = TEXT, counted_after: float = LATER) -> None:
        self.counters = Counters()
        self.offers = Offers(self.counters)
        self.document = OpenDocument(self.counters, "a", "python", text)
        self.document.retention = RetentionTracker(self.counters, text, counted_after)

    def offer(self, text: str = SAID, cursor: int = CURSOR) -> str:
        request = Request("a", self.document.text, cursor)
        [number] = self.offers.offer(self.document.retention, "python", request, [text])
        return number

    def edit(self, start: int, end: int, new: str) -> None:
        first, last = (self.document.position(place, UTF_16) for place in (start, end))
        self.document.edit(Change(new, first, last, UTF_16))

    def replace(self, new: str) -> None:
        self.document.edit(Change(new))

    def accept(self, number: str, units: int | None = None) -> None:
        self.offers.accept(number, units, UTF_16)

    @property
    def counted(self) -> tuple[int, int]:
        """Characters accepted and kept."""
        report = self.counters.report()
        counts = report["characters_accepted"], report["characters_kept"]
        assert isinstance(counts[0], int) and isinstance(counts[1], int)
        return counts[0], counts[1]

    def close(self) -> tuple[int, int]:
        self.document.close()
        return self.counted


@pytest.fixture
async def page() -> Page:
    return Page()


async def test_accepted_after_the_insertion(page: Page) -> None:
    number = page.offer()
    page.edit(CURSOR, CURSOR, SAID)
    page.accept(number)
    assert page.counted == (0, 0)
    assert page.close() == (14, 14)


async def test_accepted_before_the_insertion(page: Page) -> None:
    page.accept(page.offer())
    page.edit(0, 0, "# elsewhere\n")
    page.edit(CURSOR + 12, CURSOR + 12, SAID)
    assert page.close() == (14, 14)


async def test_accepted_but_never_inserted(page: Page) -> None:
    page.accept(page.offer())
    page.edit(CURSOR, CURSOR, "call(")
    assert page.close() == (0, 0)
    assert page.counters.report()["accepted"] == 1


async def test_accepted_twice_counts_once(page: Page) -> None:
    number = page.offer()
    page.edit(CURSOR, CURSOR, SAID)
    page.accept(number)
    page.accept(number)
    assert page.close() == (14, 14)


async def test_typed_characters_are_not_accepted(page: Page) -> None:
    page.offer()
    page.edit(CURSOR, CURSOR, "ca")
    left = page.offer("ll(one, two)", CURSOR + 2)
    page.edit(CURSOR + 2, CURSOR + 2, "ll(one, two)")
    page.accept(left)
    assert page.close() == (12, 12)


@pytest.mark.parametrize("replaced", [2, 0], ids=["the word is replaced by all", "what is left is inserted"])
async def test_characters_typed_after_the_offer_are_not_accepted(page: Page, replaced: int) -> None:
    number = page.offer()
    page.edit(CURSOR, CURSOR, "ca")
    page.edit(CURSOR + 2 - replaced, CURSOR + 2, SAID[2 - replaced :])
    page.accept(number)
    assert page.close() == (12, 12)


async def test_partial_lengths_are_cumulative(page: Page) -> None:
    number = page.offer("né😀 two three")
    for start, end, units in ((0, 3, 4), (3, 7, 8)):
        page.edit(CURSOR + start, CURSOR + start, "né😀 two three"[start:end])
        page.accept(number, units)
    assert page.close() == (7, 7)
    assert page.counters.report()["partially_accepted"] == 1


async def test_the_rest_after_a_part_is_counted_once(page: Page) -> None:
    first = page.offer()
    page.edit(CURSOR, CURSOR, "call")
    page.accept(first, 4)
    page.edit(CURSOR + 4, CURSOR + 4, "(")
    left = page.offer("one, two)", CURSOR + 5)
    page.edit(CURSOR + 5, CURSOR + 5, "one, two)")
    page.accept(left)
    assert page.close() == (13, 13)
    assert page.counters.suggestions["acceptance_rate"] == 1.0


async def test_removed_characters_are_not_retained(page: Page) -> None:
    number = page.offer()
    page.edit(CURSOR, CURSOR, SAID)
    page.accept(number)
    page.edit(0, len("import a\n"), "")
    start = page.document.text.index("one")
    page.edit(start, start + 3, "1")
    page.edit(0, 0, "import b\n")
    page.replace(page.document.text.replace("two", "twenty"))
    assert page.close() == (14, 10)
    assert page.counters.suggestions["kept_rate"] == 10 / 14


async def test_an_edit_above_moves_the_accepted_text(page: Page) -> None:
    number = page.offer()
    page.edit(0, 0, "import b\n")
    page.edit(CURSOR + 9, CURSOR + 9, SAID)
    page.accept(number)
    page.edit(0, 9, "")
    assert page.close() == (14, 14)


async def test_a_key_between_insertion_and_acceptance(page: Page) -> None:
    number = page.offer()
    page.edit(CURSOR, CURSOR, SAID)
    page.edit(CURSOR + 14, CURSOR + 14, ";")
    page.accept(number)
    assert page.close() == (14, 14)


async def test_a_bracket_removed_before_the_acceptance() -> None:
    page = Page("f()")
    number = page.offer("x)", 2)
    page.edit(2, 2, "x)")
    page.edit(4, 5, "")
    page.accept(number)
    assert page.close() == (2, 2)


async def test_crlf_line_ends() -> None:
    page = Page("a\r\n")
    number = page.offer("b\nc", 2)
    page.edit(2, 2, "b\r\nc")
    page.accept(number, 2)
    page.accept(number)
    assert page.close() == (3, 3)


async def test_retention_is_counted_after_a_delay() -> None:
    page = Page(counted_after=0.01)
    for _ in range(2):
        number = page.offer()
        page.edit(CURSOR, CURSOR, SAID)
        page.accept(number)
        page.edit(CURSOR, CURSOR + 4, "")
    await asyncio.to_thread(eventually, lambda: page.counted[0] == 28, "it is not counted")
    page.edit(CURSOR, CURSOR + 9, "")
    assert page.close() == (28, 20)


async def test_closing_counts_without_the_event_loop(page: Page) -> None:
    number = page.offer()
    page.edit(CURSOR, CURSOR, SAID)
    page.accept(number)
    await asyncio.to_thread(page.document.close)
    assert page.counted == (14, 14)
    assert page.close() == (14, 14)


async def test_documents_are_tracked_separately(page: Page) -> None:
    number = page.offer()
    page.edit(CURSOR, CURSOR, SAID)
    page.accept(number)
    other = OpenDocument(page.counters, "b", "rust", page.document.text)
    other.edit(Change(""))
    assert page.close() == (14, 14)


@st.composite
def edits(draw: st.DrawFn, size: int) -> Edit:
    at = draw(st.integers(0, size))
    return Edit(at, "-" * draw(st.integers(0, size - at)), "+" * draw(st.integers(0, 3)))


@given(st.data())
def test_a_retained_range_loses_only_removed_characters(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, ROOM))
    end = data.draw(st.integers(start, ROOM))
    inserted = [start <= place < end for place in range(ROOM)]
    retained = RetainedRange(start, end)
    for _ in range(data.draw(st.integers(0, 8))):
        edit = data.draw(edits(len(inserted)))
        inserted[edit.at : edit.at + len(edit.removed)] = [False] * len(edit.added)
        retained.follow(edit)
        assert retained.characters == sum(inserted)
