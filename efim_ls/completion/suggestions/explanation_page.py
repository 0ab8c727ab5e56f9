"""Draws an explanation as sections of labelled text, which clients paint: as HTML, in a buffer or in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, Literal, NotRequired, TypedDict
from urllib.parse import unquote

from efim_ls.paths import file_path

Explained = Mapping[str, Any]  # as `efim/explain` answers
SectionKind = Literal["status", "lines", "table", "text", "prompt", "folded"]

SPEAKERS = {
    "model": "the model's own guess",
    "file": "this file, or another open file",
    "repository": "other files of the repository",
}
COSTS = {
    "kept": "kept in memory",
    "ahead": "computed ahead of need",
    "disk": "read back from disk",
    "recomputed": "recomputed",
}
PARTS = {
    "signatures": "signatures: what this workspace uses most",
    "imports": "imports: what this file imports",
    "head": "head: the text before the lines that you edit",
    "tail": "tail: the text after the cursor's line",
    "similar": "similar: your last edits, and similar code",
    "typed": "typed: the text from the head to the cursor",
}
FRAMES = {
    "kept": "is the text that the model saw last",
    "restored": "was seen earlier, and is used again",
    "new": "is new to the model",
}


class PageSpan(TypedDict):
    """A text with the name of its style, a hint for the mouse, and the place in a file that it links to."""

    text: str
    style: NotRequired[str]
    hint: NotRequired[str]
    path: NotRequired[str]
    line: NotRequired[int]


Row = list[PageSpan]


BLANK: PageSpan = {"text": ""}


class PageSection(TypedDict):
    """A titled part of the page. Rows of a table have a cell in each span; other rows are spans side by side."""

    title: str
    kind: SectionKind
    rows: list[Row]


def sections(explained: Explained, uri: str, line: int, column: int) -> list[PageSection]:
    """Return the page that explains a place, counted from 1: the suggestion or why there is none, then the prompt."""
    drawn = [_section(f"Suggestion at {_name(uri)}:{line}:{column}", "status", _status(explained))]
    if suggested := explained["suggestion"]:
        drawn += _suggestion(suggested)
    if edit := explained.get("next_edit"):
        drawn.append(_section("The next edit", "lines", list(_next_edit(edit))))
    if explained["parts"]:
        drawn.append(_section("What the model reads, and its cost", "lines", list(_costs(explained))))
        drawn += _other_files(explained.get("other_files", ()))
        drawn += _parts(explained["parts"])
    if rest := explained["rest"].strip():
        drawn.append(_section("rest: the rest of the line, which the model does not read", "prompt", [[_span(rest)]]))
    if explained["parts"]:
        drawn.append(_section("The whole prompt, with its markers", "folded", [list(_pieces(explained["parts"]))]))
    return drawn


def _status(explained: Explained) -> list[Row]:
    if cause := explained["why"]:
        return [[_span(f"No suggestion: {cause}", "message")]]
    notice, suggested = explained["notice"], explained["suggestion"]
    said = "The model is asked for a suggestion here."
    if suggested or notice:
        said = "This was suggested here." if suggested else "Nothing was suggested here yet."
    return [[_span(said)], *([[_span(notice, "message")]] if notice else [])]


def _suggestion(suggested: Explained) -> Iterator[PageSection]:
    """Yield a suggestion's text and, if the chances of its words are known, a legend and a table of its words."""
    words, shown = suggested["words"], suggested["shown"]
    ends = accumulate(len(word["text"]) for word in words)
    known = [(word, end > len(shown)) for word, end in zip(words, ends, strict=True)]
    text = [_span(word["text"], _word_style(word, hidden), _word_hint(word, hidden)) for word, hidden in known]
    title = "Suggestion" if shown else "Hidden suggestion"
    yield _section(title, "text", [text or [_span(shown + suggested["hidden"])]])
    if known:
        yield _section("Where each word comes from", "lines", list(_legend(known)))
        yield _section("", "table", list(_word_table(known)))


def _legend(words: Sequence[tuple[Explained, bool]]) -> Iterator[Row]:
    speakers = {_speaker(word) for word, _ in words}
    for name, meaning in SPEAKERS.items():
        if name in speakers:
            yield [_span(name, name), _span(f": {meaning}")]
    if any(hidden for _, hidden in words):
        why = ": too unlikely to be shown while you type ('suggestions'); trigger ghost text by key to see it"
        yield [_span("hidden", "hidden"), _span(why, "message")]
    yield [_span("sure: how likely a word is if all words before it are right")]


def _word_table(words: Sequence[tuple[Explained, bool]]) -> Iterator[Row]:
    yield [_span(name) for name in ("word", "sure", *SPEAKERS, "source")]
    for index, (word, hidden) in enumerate(words):
        if hidden and not (index and words[index - 1][1]):
            yield [_span("hidden:", "hidden")]
        figures = (_span(_percent(word[name])) for name in ("probability", *SPEAKERS))
        first, *others = [*([_span(word["source"])] if word["source"] else []), *map(_link, word["from"])] or [BLANK]
        yield [_span(_visible(word["text"]), _word_style(word, hidden)), *figures, first]
        yield from ([*[BLANK] * (2 + len(SPEAKERS)), each] for each in others)


def _link(source: Explained) -> PageSpan:
    hint = f"the {source['tokens']} tokens before it are the same there"
    return _place(source["path"], source["line"], "source", hint)


def _speaker(word: Explained) -> str:
    """Return who said most of a word, an empty name if that is not known."""
    most = max(SPEAKERS, key=lambda name: word[name] or 0.0)
    return most if word[most] else ""


def _word_style(word: Explained, hidden: bool) -> str:
    return "hidden" if hidden else _speaker(word)


def _word_hint(word: Explained, hidden: bool) -> str:
    shares = [f"{name} {_percent(word[name])}" for name in SPEAKERS if word[name] is not None]
    said = [f"{_percent(word['probability'])} sure", *shares, word["source"], "hidden" if hidden else ""]
    return ", ".join(filter(None, said))


def _next_edit(edit: Explained) -> Iterator[Row]:
    yield _change(edit)
    yield [_span(f'by the rule "{edit["rule"]}", which is right in {_percent(edit["confidence"])}, from:')]
    yield from map(_change, edit["because"])


def _change(edit: Explained) -> Row:
    path, line = file_path(edit["uri"]), edit["line"]
    named = _place(path, line) if path and line else _span(path or _name(edit["uri"]))
    removed, added = (_span(_visible(edit[name]), name) for name in ("removed", "added"))
    return [named, _span("  "), removed, _span(" -> "), added]


def _costs(explained: Explained) -> Iterator[Row]:
    spent, costs = explained["spent"], explained["costs"]
    said = f"A suggestion here would compute {_counted(costs['recomputed'])} and reuse {costs['reused']:,}."
    if spent:
        reused, took = f"reused {spent['reused']:,}", f"took {spent['ms']['total']:.1f} ms"
        said = f"The answer here computed {_counted(spent['recomputed'])}, {reused}, and {took}."
    yield [_span(f"{said} The text around the cursor {FRAMES[(spent or costs)['frame']]}.")]
    for cost, meaning in COSTS.items():
        tokens = sum(part["tokens"] for part in explained["parts"] if part["cost"] == cost)
        yield [_span(cost, cost), _span(f": {_counted(tokens)} {meaning}")]


def _other_files(pieces: Sequence[Explained]) -> Iterator[PageSection]:
    if pieces:
        names = [_span(name) for name in ("file", "part", "lines", "tokens", "cost", "reason")]
        yield _section("Text of other files", "table", [names, *map(_piece, pieces)])


def _piece(each: Explained) -> Row:
    first, last = each["lines"][0], each["lines"][-1]
    whole = last - first + 1 == len(each["lines"]) > 1
    numbers = f"{first}-{last}" if whole else ", ".join(map(str, each["lines"]))
    figures = map(_span, (each["place"], numbers, f"{each['tokens']:,}"))
    file, cost = _place(each["file"], first, "source"), _span(each["cost"], each["cost"])
    return [file, *figures, cost, _span(each["why"])]


def _parts(parts: Sequence[Explained]) -> Iterator[PageSection]:
    """Yield the text of each part of the prompt but the markers; a span has one cost."""
    for name, group in groupby((part for part in parts if part["part"] in PARTS), key=lambda part: part["part"]):
        pieces = list(group)
        costs = ", ".join(f"{piece['tokens']:,} {piece['cost']}" for piece in pieces)
        yield _section(f"{PARTS[name]} (tokens: {costs})", "prompt", [list(_pieces(pieces))])


def _pieces(parts: Sequence[Explained]) -> Iterator[PageSpan]:
    """Yield the texts of parts in the styles of their costs; where the cost changes, a note says it in words."""
    several, before = len({part["cost"] for part in parts}) > 1, ""
    for part in parts:
        cost = part["cost"]
        if several and cost != before:
            yield _span(f"[{cost}]", "note")
        yield _span(part["text"], cost, f"{_counted(part['tokens'])} {COSTS[cost]}")
        before = cost


def _section(title: str, kind: SectionKind, rows: list[Row]) -> PageSection:
    return {"title": title, "kind": kind, "rows": rows}


def _span(text: str, style: str = "", hint: str = "") -> PageSpan:
    span: PageSpan = {"text": text}
    if style:
        span["style"] = style
    if hint:
        span["hint"] = hint
    return span


def _place(path: str, line: int, style: str = "", hint: str = "") -> PageSpan:
    return {**_span(f"{path}:{line}", style, hint), "path": path, "line": line}


def _name(uri: str) -> str:
    """Return the name of a document for people: the end of its path; of one without a file, all behind the scheme."""
    place = uri.partition("#")[0]
    return unquote(place.rpartition("/")[2] if "/" in place else place.partition(":")[2]) or uri


def _counted(tokens: int) -> str:
    return f"{tokens:,} {'token' if tokens == 1 else 'tokens'}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _visible(text: str) -> str:
    return text.replace("\n", "↵").strip(" ") or text
