"""Which offers are one suggestion, and what is counted of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from efim_ls.request import Request
from efim_ls.usage.counters import Counters
from efim_ls.usage.suggestions import MOST_OFFERS, Event, Offers, RetentionTracker

BEFORE = "x = "


class Client:
    """Offers as they are made for one document, and what is counted."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.offers = Offers(self.counters)
        self.trackers = defaultdict[str, RetentionTracker](lambda: RetentionTracker(self.counters, ""))

    def offer(self, typed: str, *texts: str, uri: str = "a", before: str = BEFORE) -> list[str]:
        text = before + typed
        return self.offer_at(Request(uri, text + "\nrest", len(text)), texts)

    def offer_at(self, request: Request, texts: Sequence[str]) -> list[str]:
        return self.offers.offer(self.trackers[request.uri], "python", request, texts)

    def tell(self, number: str, event: Event) -> None:
        if event == "shown":
            self.offers.show(number)
        else:
            self.offers.accept(number, None if event == "accepted" else 1, "utf-16")

    @property
    def counts(self) -> dict[str, object]:
        """What is not 0."""
        names = ("offered", "shown", "accepted", "partially_accepted")
        return {name: count for name, count in self.counters.report().items() if name in names and count}


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_remainder_is_the_same_suggestion(client: Client) -> None:
    numbers = [number for typed in ("", "f", "fo", "f") for number in client.offer(typed, "foo(bar)"[len(typed) :])]
    assert len(set(numbers)) == 4
    for number in numbers:
        client.tell(number, "shown")
    assert client.counts == {"offered": 1, "shown": 1}


def test_a_longer_or_shorter_beginning_of_what_is_left_is_the_same_suggestion(client: Client) -> None:
    numbers = [
        number
        for typed, text in (("", "foo"), ("f", "oo(bar)"), ("fo", "o"), ("foo", "(bar) + 1"))
        for number in client.offer(typed, text)
    ]
    for number in numbers:
        client.tell(number, "shown")
    assert client.counts == {"offered": 1, "shown": 1}
    client.tell(numbers[-1], "accepted")
    client.offer("foo(bar) + 1", "next")
    assert client.counts == {"offered": 2, "shown": 1, "accepted": 1}


def test_other_texts_places_and_documents_are_other_suggestions(client: Client) -> None:
    client.offer("", "foo")
    client.offer("f", "ew")
    client.offer("", "foo", before="y = 1\nx = ")
    client.offer("", "foo", uri="b")
    client.offer("g", "oo")
    assert client.counts["offered"] == 5


def test_an_accepted_suggestion_can_be_offered_again(client: Client) -> None:
    for times in (1, 2):
        [number] = client.offer("", "foo")
        client.tell(number, "accepted")
        assert client.counts == dict.fromkeys(("offered", "shown", "accepted"), times)


def test_alternatives_count_as_one_suggestion(client: Client) -> None:
    first, second = client.offer("", "foo", "bar")
    client.tell(second, "shown")
    client.tell(first, "shown")
    [left] = client.offer("b", "ar")
    client.tell(left, "accepted")
    assert client.counts == {"offered": 1, "shown": 1, "accepted": 1}
    assert client.counters.suggestions["acceptance_rate"] == 1.0


def test_accepting_a_part_and_then_all_counts_one_taken(client: Client) -> None:
    [number] = client.offer("", "foo(bar)")
    client.tell(number, "partially_accepted")
    [left] = client.offer("foo", "(bar)")
    client.tell(left, "partially_accepted")
    client.tell(left, "accepted")
    client.offer("", "another")
    assert client.counts == {"offered": 2, "shown": 2, "accepted": 1, "partially_accepted": 1}
    assert client.counters.suggestions["acceptance_rate"] == 0.5


def test_offers_count_as_shown_until_a_client_reports_it(client: Client) -> None:
    [first] = client.offer("", "one")
    assert client.counts == {"offered": 1, "shown": 1}
    client.tell(first, "shown")
    [second] = client.offer("", "two")
    client.offer("", "three")
    assert client.counts == {"offered": 3, "shown": 1}
    client.tell(second, "shown")
    assert client.counts == {"offered": 3, "shown": 2}


def test_an_accepted_suggestion_counts_as_shown(client: Client) -> None:
    [first] = client.offer("", "one")
    client.tell(first, "shown")
    [second] = client.offer("", "two")
    client.tell(second, "accepted")
    assert client.counts == {"offered": 2, "shown": 2, "accepted": 1}


def test_a_reopened_document_gets_new_suggestions(client: Client) -> None:
    client.offer("", "foo")
    client.trackers.pop("a").close()
    client.offer("", "foo")
    assert client.counts["offered"] == 2


def test_the_oldest_offers_are_forgotten(client: Client) -> None:
    numbers = [number for n in range(MOST_OFFERS + 1) for number in client.offer("", f"text {n}")]
    for number in (numbers[0], numbers[1], numbers[-1]):
        client.tell(number, "accepted")
    assert client.counts["accepted"] == 2


@pytest.mark.parametrize(
    ("units", "encoding", "end"),
    [(None, "utf-16", 5), (2, "utf-16", 1), (3, "utf-16", 2), (4, "utf-16", 3), (4, "utf-8", 1), (2, "utf-32", 2),
     (-1, "utf-16", 0), (1, "utf-16", 0), (99, "utf-16", 5)],
)  # fmt: skip
def test_the_end_of_the_first_units(client: Client, units: int | None, encoding, end: int) -> None:
    [number] = client.offer_at(Request("a", "\n", 1), ["😀a\nbc"])
    offer = client.offers.find(number)
    assert offer is not None and offer.end(units, encoding) == end
