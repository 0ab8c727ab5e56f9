"""Completions for clients that send text, not edits: one session, as an editor's, in which all dialects ask."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from starlette.responses import Response

from efim_ls.http.documents import ClientDocuments, CursorContext, uri_of
from efim_ls.languages.table import family_of, language_of
from efim_ls.request import Answer
from efim_ls.session.documents import MOST_CHARACTERS_OF_OTHERS, MOST_OTHERS, OpenDocument
from efim_ls.session.session import Session
from efim_ls.text.lines import normalized
from model_runtime.prompt.families import FAMILIES, Family
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

MOST_COMPLETIONS = 8  # of one request
SPACE_SIGN = "▁"  # which SentencePiece puts in place of a space; clients write the marker without it
BEGINNINGS = ("<s>", "<bos>", "<｜begin▁of▁sentence｜>", "<|endoftext|>")  # that templates put before everything


class Cut(NamedTuple):
    """The part of a completion that a client wants, why it ends there, and the client's stop word."""

    text: str
    reason: Literal["eos", "limit", "word"]
    word: str = ""


class Completions:
    """Answers requests, whatever their dialect. Used on the event loop only."""

    def __init__(self, session: Session, tokenizers: LanguageTokenizers | None, name: str) -> None:
        """Answer with a session whose model is loaded; `name` is what clients call the model.

        Without `tokenizers`, completions are not cut by tokens; these are the default one's, whatever the language.
        """
        self.name = name
        self._session, self._tokenizer = session, tokenizers and tokenizers.default
        session.requests.waits_for_rest = False  # these clients send no other request before the answer
        self._documents = ClientDocuments(session)

    @property
    def description(self) -> dict[str, Any]:
        """What runs where, and why."""
        return self._session.describe()

    async def complete(self, context: CursorContext, count: int = 1, explicit: bool = False) -> Answer:
        """Answer with up to `count` completions.

        If `explicit`, it answers like a key in an editor; otherwise like typing, which leaves out unlikely text.
        """
        document, cursor = self._documents.sync(context)
        document.cursor = cursor
        request = self._session.request_at(document, cursor, explicit)
        others = tuple(self._texts_of_others(document, context)) + request.others
        count = min(max(1, count), MOST_COMPLETIONS)
        wanted = replace(request, others=others, count=count)
        return await self._session.requests.complete(wanted)

    def warm(self, context: CursorContext) -> None:
        """Prefetch what a request at this place will need, once nobody has asked for anything for a moment."""
        document, document.cursor = self._documents.sync(context)
        self._session.background.rested(document)

    def cut(self, text: str, most_tokens: int, stops: Iterable[str]) -> Cut:
        """Return a completion up to a number of tokens, none if that is negative, and to the first of some words."""
        found = [(at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0]
        at, stop = min(found, default=(len(text), ""))
        if self._tokenizer and 0 <= most_tokens < len(ids := self._tokenizer.encode(text[:at])):
            return Cut(self._tokenizer.decode(ids[:most_tokens]).rstrip("\ufffd"), "limit")
        return Cut(text[:at], "word" if stop else "eos", stop)

    def _texts_of_others(self, document: OpenDocument, context: CursorContext) -> Iterable[str]:
        """Yield the texts of other files in the document's language that the rules let be read."""
        rules, left = self._session.documents.rules, MOST_CHARACTERS_OF_OTHERS
        for path, text in context.others[-MOST_OTHERS:]:
            language, size = language_of(path), len(text)
            is_alike = family_of(language) == document.family and size <= left
            if is_alike and (read := rules.verdict(uri_of(path), language).text_to_read(text, language)) is not None:
                left -= size
                yield normalized(read)


def events(messages: Iterable[object], end: str = "") -> Response:
    """Return messages as server-sent events; clients that want a stream get the whole text as its first piece."""
    lines = [json.dumps(each, separators=(",", ":")) for each in messages] + ([end] if end else [])
    return Response("".join(f"data: {line}\n\n" for line in lines), media_type="text/event-stream")


def around_cursor(prompt: str) -> tuple[str, str]:
    """Return the text before the cursor and the one after it; a prompt that is no template's is all before it."""
    for family in FAMILIES:
        if (found := _around(prompt, family)) is not None:
            return found
    return prompt, ""


def _around(prompt: str, family: Family) -> tuple[str, str] | None:
    """Return the two texts if a prompt begins and ends as a family's do, in any order of the parts; else None.

    Markers elsewhere are text that quotes them. What stands before the first one is left out: other files, or what a
    template adds.
    """
    prefix, suffix, middle = (name.removeprefix(SPACE_SIGN) for name in (family.prefix, family.suffix, family.middle))
    files = (family.files.separator, family.files.repository) if family.files else ()
    if not prompt.startswith((prefix, suffix, *filter(None, files), *BEGINNINGS)) or not prompt.endswith(middle):
        return None
    head, tail, end = prompt.find(prefix), prompt.find(suffix), len(prompt) - len(middle)
    if min(head, tail) < 0 or (head < tail and not middle):
        return None
    before, after = head + len(prefix), tail + len(suffix)
    if head < tail:
        return prompt[before:tail], prompt[after:end]
    return prompt[before:end], prompt[after:head]
