"""Which document a part of a text is of: found by its edges, so that what was sent before stays known."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.http.documents import (
    EDGE,
    MOST_DOCUMENTS,
    MOST_KEPT,
    ClientDocuments,
    CursorContext,
    DocumentPart,
    merged,
    uri_of,
)
from efim_ls.session.loader import nothing_to_fetch
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from tests.lsp.stand_in import StandIn
from tests.waiting import HANG

LINES = [f"value_{number} = compute({number}, other_{number % 7})\n" for number in range(400)]


class Client:
    """An editor that sends some lines above and below the cursor's at each key."""

    def __init__(self, text: str, cursor: int, above: int = 30, below: int = 10) -> None:
        self.text, self.cursor, self.above, self.below = text, cursor, above, below

    @property
    def part(self) -> tuple[str, int]:
        """The text that is sent, and the cursor in it."""
        lines = self.text.splitlines(keepends=True)
        row = self.text.count("\n", 0, self.cursor)
        first = max(0, row - self.above)
        start = sum(map(len, lines[:first]))
        return "".join(lines[first : row + self.below + 1]), self.cursor - start

    @property
    def context(self) -> CursorContext:
        text, cursor = self.part
        return CursorContext(text[:cursor], text[cursor:])

    def type(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)


def session() -> Session:
    return Session(lambda settings, _: cast("Any", StandIn(settings)), nothing_to_fetch)


@given(st.lists(st.sampled_from(["x", "(", "\n", "if value_1:\n", "down", "up", "back"]), max_size=60))
def test_a_text_that_is_sent_in_parts_stays_a_piece_of_the_file(keys: list[str]) -> None:
    client = Client("".join(LINES), sum(map(len, LINES[:100])))
    known, last = client.part[0], DocumentPart(0, len(client.part[0]))
    for key in keys:
        line = client.text.rfind("\n", 0, client.cursor) + 1
        if key == "down":
            client.cursor = client.text.index("\n", client.cursor) + 1
        elif key == "up":
            client.cursor = max(0, client.text.rfind("\n", 0, max(0, line - 1)) + 1)
        elif key == "back":
            client.text = client.text[: client.cursor - 1] + client.text[client.cursor :]
            client.cursor -= 1
        else:
            client.type(key)
        text, cursor = client.part
        if (found := merged(known, last, text, cursor)) is None:
            known, last = text, DocumentPart(0, len(text))
            continue
        known, last = found[0], DocumentPart(found[1], len(text))
        assert known in client.text
        assert known[last.at :].startswith(text)


def test_lines_above_stay_known_while_the_part_moves_down() -> None:
    client = Client("".join(LINES), sum(map(len, LINES[:100])))
    known, last = client.part[0], DocumentPart(0, len(client.part[0]))
    for number in range(50):
        client.type(f"added_{number} = 1\n")
        text, cursor = client.part
        found = merged(known, last, text, cursor)
        assert found
        known, last = found[0], DocumentPart(found[1], len(text))
    assert known in client.text and known.startswith(LINES[70]) and known.count("added_") == 50


def test_an_edit_of_the_beginning_is_where_the_last_part_was() -> None:
    text = "".join(LINES[:40])
    assert merged(text, DocumentPart(0, len(text)), "#" + text, 1) == ("#" + text, 0)


def test_files_that_begin_alike_are_two() -> None:
    header = "# Permission is granted to whoever reads this far, and longer.\n" * 10
    first = header + "".join(LINES[:100])
    second = header + "".join(f"def function_{number}(): return {number}\n" for number in range(100))
    assert merged(first, DocumentPart(0, len(first)), second, len(second)) is None


async def test_documents_without_names_are_told_apart_by_their_texts() -> None:
    documents = ClientDocuments(mine := session())
    first = Client("".join(LINES[:50]), 800)
    second = Client("".join(f"def function_{number}(): return {number}\n" for number in range(50)), 800)
    uris = list[str]()
    for client in (first, second, first, second, second):
        client.type("x")
        document, cursor = documents.sync(client.context)
        uris.append(document.uri)
        assert document.text[:cursor].endswith("x") and document.text in client.text
    assert uris[0] == uris[2] != uris[1] == uris[3] == uris[4]
    mine.close(HANG)


async def test_the_document_that_was_not_used_for_longest_is_closed() -> None:
    documents = ClientDocuments(mine := session())
    uris = [documents.sync(CursorContext("x = 1\n", "", f"/{number}.py"))[0].uri for number in range(MOST_DOCUMENTS)]
    documents.sync(CursorContext("x = 2\n", "", "/0.py"))
    documents.sync(CursorContext("x = 1\n", "", "/new.py"))
    assert [mine.documents.get(uri) is None for uri in uris] == [number == 1 for number in range(MOST_DOCUMENTS)]
    mine.close(HANG)


async def test_a_document_that_grows_without_end_is_what_was_sent_last() -> None:
    documents = ClientDocuments(mine := session())
    line = "value = compute(1, other)\n"
    documents.sync(CursorContext(line * (MOST_KEPT // len(line)), "", "/a.py"))
    part = line * 100 + "".join(LINES)
    document, cursor = documents.sync(CursorContext(part, "", "/a.py"))
    assert (document.text, cursor) == (part, len(part))
    mine.close(HANG)


async def test_the_language_is_told_by_the_client_else_by_the_name_else_by_the_text() -> None:
    documents = ClientDocuments(mine := session())
    rust = "fn main() {\n    let mut total = 0;\n}\n"
    contexts = (
        CursorContext(rust, "", "/a.py", "go"),
        CursorContext(rust, "", "/b.py"),
        CursorContext(rust, ""),
        CursorContext("total = 0\n" * 9, ""),
    )
    assert [documents.sync(each)[0].language for each in contexts] == ["go", "python", "rust", "python"]
    mine.close(HANG)


async def test_rules_apply_to_names_and_nothing_without_one_reaches_the_disk() -> None:
    documents = ClientDocuments(mine := session())
    mine.configure(Settings(disabled_files=("*/client/*",)))
    paths = ("/home/me/.env", "src/.env", "file:///home/me/.env", "client/a.py", "a.py", "")
    documents_of = [documents.sync(CursorContext("TOKEN=1", "", path))[0] for path in paths]
    reasons = [off and off.reason for off in (mine.documents.why_off(each.uri) for each in documents_of)]
    assert reasons == ["secret file", "secret file", "secret file", "file off", None, None]
    mine.close(HANG)


def test_only_an_absolute_path_is_a_file() -> None:
    assert uri_of("/home/me/a b.py") == "file:///home/me/a%20b.py"
    assert uri_of("file:///a.py") == "file:///a.py"
    assert uri_of("src/a#1.py") == "http-client:/src/a%231.py"
    assert uri_of("untitled:Untitled-1") == "untitled:Untitled-1"


def test_the_narrowest_edit_is_found() -> None:
    """So that what stands around it is known to be the same."""
    text = "".join(LINES[:60])
    found = merged(text, DocumentPart(0, len(text)), text[:EDGE] + "new" + text[EDGE:], EDGE + 3)
    assert found == (text[:EDGE] + "new" + text[EDGE:], 0)


@pytest.mark.parametrize("path", ["/a/\ud800.py", "\udfff.py", "/a/\ud800/é.py"])
def test_half_a_pair_in_a_path_has_a_uri(path: str) -> None:
    assert uri_of(path).isascii() and uri_of(path) != uri_of("/a/b.py")
