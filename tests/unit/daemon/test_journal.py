"""A journal makes a new server know what the old one knew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from lsprotocol.types import WorkspaceFolder
from pygls.workspace import Workspace

from efim_ls.daemon.journal import OURS, Journal
from efim_ls.daemon.link import read_message
from efim_ls.lsp.protocol import changes_of
from efim_ls.text.document import Document

URIS = ("file:///a.py", "file:///b.py")
GREETING = {"id": 0, "method": "initialize", "params": {}}


def body(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


class Server:
    """A server as far as documents and requests go: what it holds after what it was told."""

    def __init__(self) -> None:
        self.texts: dict[str, Document] = {}
        self.asked: list[object] = []
        self.told: list[str] = []

    def take(self, data: bytes) -> None:
        message = json.loads(data)
        self.told.append(message.get("method", ""))
        params = message.get("params") or {}
        if "id" in message:
            self.asked.append(message["id"])
        uri = params.get("textDocument", {}).get("uri", "")
        match message.get("method"):
            case "textDocument/didOpen":
                item = params["textDocument"]
                self.texts[uri] = Document(uri, "python", item["text"], item["version"])
            case "textDocument/didChange":
                for change in changes_of(params, "utf-16"):
                    assert change is not None
                    self.texts[uri].apply(change)
            case "textDocument/didClose":
                del self.texts[uri]
            case _:
                pass

    def state(self) -> dict[str, str]:
        return {uri: document.text for uri, document in self.texts.items()}


def messages(data: bytes) -> Iterator[bytes]:
    wire = BytesIO(data)
    while (message := read_message(wire)) is not None:
        yield message


def again(journal: Journal) -> Server:
    server = Server()
    for each in messages(journal.begin_again()):
        server.take(each)
    return server


def opened(uri: str, text: str) -> dict[str, Any]:
    item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    return {"method": "textDocument/didOpen", "params": {"textDocument": item}}


def typed(uri: str, at: int, text: str) -> dict[str, Any]:
    place = {"line": 0, "character": at}
    changes = [{"range": {"start": place, "end": place}, "text": text}]
    return {"method": "textDocument/didChange", "params": {"textDocument": {"uri": uri}, "contentChanges": changes}}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("open"), st.sampled_from(URIS), st.text(max_size=20)),
            st.tuples(st.just("type"), st.sampled_from(URIS), st.integers(0, 30)),
            st.tuples(st.just("flood"), st.sampled_from(URIS), st.integers(1, 4)),
            st.tuples(st.just("close"), st.sampled_from(URIS), st.none()),
            st.tuples(st.just("die"), st.just(""), st.none()),
            st.tuples(st.just("answer"), st.just(""), st.none()),
        ),
        max_size=30,
    )
)
@example(
    [("open", URIS[0], "old"), ("flood", URIS[0], 2), ("close", URIS[0], None)]
    + [("open", URIS[0], "new"), ("flood", URIS[0], 2), ("answer", "", None)]  # to what was asked of the old text
)
def test_a_new_server_has_the_same_texts(steps: list[tuple[str, str, Any]]):
    journal, server, queries = Journal(), Server(), list[tuple[str, str]]()

    def say(message: dict[str, Any]) -> None:
        for each in journal.sent(body(message)):
            if (asked := json.loads(each)).get("method") == "efim/text":  # answered as things are now
                queries.append((asked["id"], asked["params"]["textDocument"]["uri"]))
                answers[asked["id"]] = server.texts[queries[-1][1]].text
            else:
                server.take(each)

    answers = dict[str, str]()
    say(GREETING)
    for step, uri, what in steps:
        if step == "open" and uri not in server.texts:
            say(opened(uri, what))
        elif step == "type" and uri in server.texts:
            say(typed(uri, what, "é𝄞\n"))
        elif step == "flood" and uri in server.texts:
            for _ in range(what):
                say(typed(uri, 0, "x" * 40_000))
        elif step == "close" and uri in server.texts:
            say({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}})
        elif step == "answer" and queries:
            number, _ = queries.pop(0)
            answer = {"id": number, "result": {"text": answers[number], "version": 7}}
            assert journal.received(body(answer)) == (None, None)
        elif step == "die":
            queries.clear()
            server = again(journal)
    assert again(journal).state() == server.state()


def test_edits_give_way_to_the_text():
    journal = Journal()
    journal.sent(body(GREETING))
    journal.sent(body(opened(URIS[0], "")))
    sent = [json.loads(each) for n in range(3) for each in journal.sent(body(typed(URIS[0], 0, "x" * 30_000)))]
    [query] = [each for each in sent if each["method"] == "efim/text"]
    assert query["id"].startswith(OURS)
    before = len(journal.begin_again())
    query = next(
        json.loads(each)
        for _ in range(9)
        for each in journal.sent(body(typed(URIS[0], 0, "y")))
        if b"efim/text" in each
    )
    journal.received(body({"id": query["id"], "result": {"text": "short", "version": 3}}))
    assert len(journal.begin_again()) < before // 100


def test_unanswered_requests_are_asked_again_and_answered_ones_are_not():
    journal = Journal()
    for message in (GREETING, {"method": "initialized"}, opened(URIS[0], "a")):
        journal.sent(body(message))
    journal.received(body({"id": 0, "result": {}}))
    journal.sent(body({"id": "one", "method": "textDocument/inlineCompletion"}))
    journal.sent(body({"id": "two", "method": "textDocument/inlineCompletion"}))
    journal.sent(body({"method": "$/cancelRequest", "params": {"id": "two"}}))
    assert journal.received(body({"id": "one", "result": None}))[0] is not None
    server = again(journal)
    assert server.asked == [0, "two"]
    assert server.told == [
        "initialize", "initialized", "textDocument/didOpen", "textDocument/inlineCompletion", "$/cancelRequest",
    ]  # fmt: skip
    assert journal.received(body({"id": 0, "result": {}})) == (None, None), "the client has been greeted before"
    assert journal.received(body({"id": "two", "result": None}))[0] is not None
    assert not journal.is_waiting


def test_a_client_is_not_asked_twice_to_watch_files():
    journal, ask = Journal(), {"id": "s1", "method": "client/registerCapability", "params": {}}
    journal.sent(body(GREETING))
    assert journal.received(body(ask))[0] is not None
    assert journal.sent(body({"id": "s1", "result": None})) != []
    journal.begin_again()
    passed, answer = journal.received(body({**ask, "id": "s2"}))
    assert (
        passed is None and answer is not None and json.loads(answer) == {"jsonrpc": "2.0", "id": "s2", "result": None}
    )
    assert journal.sent(body({"id": "old", "result": None})) == [], "an answer to a question of the dead"


def test_progress_of_a_dead_server_ends():
    journal = Journal()
    for kind in ("begin", "report"):
        journal.received(body({"method": "$/progress", "params": {"token": "t", "value": {"kind": kind}}}))
    [end] = journal.end_progress()
    assert json.loads(end)["params"] == {"token": "t", "value": {"kind": "end"}}
    assert journal.end_progress() == []


FOLDERS = ("file:///one", "file:///two", "file:///three")


@given(st.lists(st.tuples(*[st.sets(st.sampled_from(FOLDERS))] * 2), max_size=8))
def test_a_new_server_has_the_same_folders(events: list[tuple[set[str], set[str]]]):
    journal, before, after = Journal(), Workspace(None), Workspace(None)
    journal.sent(body(GREETING))
    for added, removed in events:
        event = {"added": [{"uri": each, "name": "n"} for each in added]}
        event |= {"removed": [{"uri": each, "name": "n"} for each in removed]}
        message = {"method": "workspace/didChangeWorkspaceFolders", "params": {"event": event}}
        [sent] = journal.sent(body(message))
        change(before, json.loads(sent))
    told = [json.loads(each) for each in messages(journal.begin_again())][1:]
    assert len(told) <= 1, "what was said over a day is not kept"
    for each in told:
        change(after, each)
    assert set(after.folders) == set(before.folders)


def change(workspace: Workspace, message: dict[str, Any]) -> None:
    event = message["params"]["event"]
    for each in event["added"]:
        workspace.add_folder(WorkspaceFolder(**each))
    for each in event["removed"]:
        workspace.remove_folder(each["uri"])


KEYS = st.sampled_from(("id", "method", "params", "textDocument", "uri", "x"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(KEYS, each)
)


@given(JSON)
def test_no_message_can_break_it(message: object):
    journal, data = Journal(), json.dumps(message).encode()
    assert data in journal.sent(data)
    journal.sent(data[:-1])
    journal.begin_again()
