"""Next edits between a rule and a client: where they are allowed, their ids, and what is counted of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from efim_ls.next_edit.situation import ProposedEdit
from efim_ls.session.documents import OpenDocument
from efim_ls.session.next_edits import OfferedEdit
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from efim_ls.text.document import Change, Edit
from tests.lsp.one_rule import RULE, OneRule
from tests.unit.session.test_session_requests import Fake
from tests.waiting import HANG, Clock

TEXT = "area = width\nedge = width\nhalf = width\n"
URI = "file:///home/me/shapes.py"


def loaded(*_: object) -> Any:
    return Fake()


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    session = Session(loaded)
    session.documents.clock = Clock()
    session.next_edits.proposals = OneRule(session.documents.history)
    yield session
    await asyncio.to_thread(session.close, HANG)


def replace(session: Session, document: OpenDocument, at: int, size: int, new: str) -> None:
    start, end = (document.position(each, "utf-32") for each in (at, at + size))
    session.edit(document, [Change(new, start, end, "utf-32")])


def opened(session: Session, uri: str = URI, language: str = "python") -> OpenDocument:
    """A document in which the first `width` has just become `depth`."""
    document = session.open(uri, language, TEXT)
    replace(session, document, TEXT.index("width"), 5, "depth")
    return document


async def make(session: Session, document: OpenDocument) -> str:
    """Take the edit that is offered, as a client does; returns its id."""
    offer = await session.next_edits.find(document, 0)
    assert offer
    replace(session, document, offer.edit.start, len(offer.edit.removed), offer.edit.added)
    session.next_edits.accept(offer.number)
    return offer.number


def counted(session: Session) -> dict[str, int]:
    counts: Any = session.counters.report()["next_edits"]
    return counts


async def test_the_edit_at_the_next_place_is_offered_under_one_id(session: Session) -> None:
    document = opened(session)
    offer = await session.next_edits.find(document, 0)
    assert offer and (offer.edit.start, offer.edit.added) == (document.text.index("width"), "depth")
    again, far = await session.next_edits.find(document, 5), await session.next_edits.find(document, len(TEXT))
    assert again is offer
    assert far and far.number != offer.number and far.edit.start == document.text.rindex("width")
    assert await session.next_edits.find(document, 0) is offer


@pytest.mark.parametrize(
    "settings",
    [
        Settings(next_edit=False),
        Settings(enabled=False),
        Settings(disabled_languages=("python",)),
        Settings(disabled_files=("shapes.py",)),
    ],
)
async def test_nothing_is_offered_where_it_is_off(session: Session, settings: Settings) -> None:
    document = opened(session)
    session.configure(settings)
    assert await session.next_edits.find(document, 0) is None
    session.configure(Settings())
    assert await session.next_edits.find(document, 0)


async def test_a_secret_file_and_one_out_of_step_get_no_offer(session: Session) -> None:
    secret = opened(session, "file:///home/me/.env", "properties")
    assert await session.next_edits.find(secret, 0) is None
    document = opened(session)
    session.edit(document, [None])
    assert await session.next_edits.find(document, 0) is None


async def test_an_edit_of_a_document_that_is_off_or_closed_is_not_offered(session: Session) -> None:
    class Elsewhere(OneRule):
        uri = ""

        def propose(self, document: Any, cursor: int, importable: Any = ()) -> Any:
            edit = super().propose(document, cursor, importable)
            return edit and edit._replace(uri=self.uri)

    session.next_edits.proposals = rule = Elsewhere(session.documents.history)
    document = opened(session)
    session.open("file:///home/me/.env", "properties", TEXT)
    session.open("file:///home/me/open.py", "python", TEXT)
    for rule.uri in ("file:///home/me/.env", "file:///home/me/closed.py"):
        assert await session.next_edits.find(document, 0) is None
    rule.uri = "file:///home/me/open.py"
    assert await session.next_edits.find(document, 0)


async def test_a_refused_edit_is_not_offered_again(session: Session) -> None:
    document = opened(session)
    offer = await session.next_edits.find(document, 0)
    assert offer
    session.next_edits.refuse(offer.number)
    another = await session.next_edits.find(document, 0)
    assert another and another.edit.start > offer.edit.start


async def test_a_rule_that_fails_offers_nothing(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    document = session.open(URI, "python", TEXT)
    replace(session, document, TEXT.index("width"), 5, "crash")
    assert await session.next_edits.find(document, 0) is None
    assert "proposing a next edit failed" in caplog.text


async def test_shown_and_accepted_count_once(session: Session) -> None:
    document = opened(session)
    offer = await session.next_edits.find(document, 0)
    assert offer
    for _ in range(2):
        session.next_edits.show(offer.number)
    assert counted(session) == {"shown": 1, "accepted": 0, "kept": 0}
    number = await make(session, document)
    session.next_edits.accept(number)
    session.next_edits.refuse(number)
    assert counted(session) == {"shown": 1, "accepted": 1, "kept": 0}
    session.close_document(URI)
    assert counted(session) == {"shown": 1, "accepted": 1, "kept": 1}


@pytest.mark.parametrize(
    ("removed", "added", "told"),
    [
        ("width", "depth", Edit(10, "width", "depth")),
        ("f(a)", "f(a, b)", Edit(13, "", ", b")),
        ("f(a, b)", "f(a)", Edit(13, ", b", "")),
    ],
)
async def test_what_only_adds_or_removes_is_told_without_what_stays(
    session: Session, removed: str, added: str, told: Edit
) -> None:
    edit = ProposedEdit(URI, 10, 10 + len(removed), removed, added, RULE, 0.9, ())
    assert OfferedEdit("1", session.open(URI, "python", TEXT), edit).told == told


async def test_what_is_unknown_is_ignored(session: Session) -> None:
    for tell in (session.next_edits.show, session.next_edits.accept, session.next_edits.refuse):
        tell("7")
    assert not any(counted(session).values())


@pytest.mark.parametrize("when", ["closed", "opened again", "left"])
async def test_kept_is_counted_when_a_document_goes(session: Session, when: str) -> None:
    await make(session, opened(session))
    match when:
        case "closed":
            session.close_document(URI)
        case "opened again":
            session.open(URI, "python", TEXT)
        case _:
            await session.leave(5)
    assert counted(session)["kept"] == 1


async def test_the_explanation_names_the_rule_and_where_its_edits_are_now(session: Session) -> None:
    document = opened(session)
    replace(session, document, 0, 0, "# shapes\n")
    replace(session, document, document.text.index("depth"), 5, "deep")
    assert await session.next_edits.find(document, 0) is None, "depth is nowhere else"
    replace(session, document, document.text.index("edge"), 4, "rim")
    assert await session.next_edits.find(document, 0) is None
    document = opened(session, "file:///home/me/other.py")
    offer = await session.next_edits.find(document, 0)
    assert offer and session.next_edits.explain(offer) == {
        "uri": document.uri,
        "line": 2,
        "removed": "width",
        "added": "depth",
        "rule": RULE,
        "confidence": 0.9,
        "because": [{"uri": document.uri, "line": 1, "removed": "wid", "added": "dep"}],
    }
