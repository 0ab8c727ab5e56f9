"""Explains an answer to people: what each part of its prompt cost, and who said each word.

Everything here runs when someone asks, never for a keystroke.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Literal, NamedTuple

import numpy as np

from efim_ls.completion.planning.planner import Frame
from efim_ls.request import Answer, Costs
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.output import TextProbability
from model_runtime.ids import Ids
from model_runtime.prompt.prompt import WINDOW_PARTS, Prompt
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.layout import placed

LEAST_SHARE = 0.1  # of a word that the repository said, from which places are named
MOST_PLACES = 3  # of a word
UNKNOWN: Mapping[str, object] = {"model": None, "file": None, "repository": None, "from": []}

PartCost = Literal["kept", "ahead", "disk", "recomputed"]


class AnswerOrigin(NamedTuple):
    """What an answer was made from: a text with its chances, from its character `start` on.

    `counts` is the view of the repository that the text was chosen with. `refuted`: another guess at the word at the
    cursor was wrong.
    """

    likelihood: TextProbability
    start: int
    counts: CountsView | None
    refuted: bool


class ExplainedPart(NamedTuple):
    """A piece of a prompt that lies in one part of it and has one cost.

    `cost` says where its keys and values came from: `kept` in memory, computed `ahead` of need, read back from where
    they were saved (`disk`), or `recomputed`.
    """

    part: str
    text: str
    tokens: int
    cost: PartCost


class ShownPiece(NamedTuple):
    """A piece of another file in a prompt: where it is from, lines from 1, why it was chosen, and its cost."""

    place: str
    path: str
    file: str
    lines: tuple[int, ...]
    why: str
    tokens: int
    cost: PartCost


def explained(
    tokenizer: Tokenizer,
    template: Template,
    frame: Frame,
    costs: Costs,
    answered: Answer | None,
    origin: AnswerOrigin | None,
) -> dict[str, object]:
    """Return a frame's prompt with its parts and costs as plain values, and the last answer with it, `answered`."""
    plan, prompt = frame.plan, frame.prompt
    spent = spent_on(prompt, answered)
    return {
        "prompt": tokenizer.decode(np.concatenate([part.ids for part in prompt.parts])),
        "parts": [each._asdict() for each in prompt_parts(tokenizer, prompt, spent or costs)],
        "other_files": [each._asdict() for each in shown_pieces(tokenizer, template, frame, spent or costs)],
        "head": plan.head,
        "tail": plan.tail,
        "typed": plan.typed,
        "rest": plan.rest,
        "costs": asdict(costs),
        "spent": asdict(spent) if spent else None,
        "suggestion": suggestion(tokenizer, answered, origin),
    }


def shown_pieces(tokenizer: Tokenizer, template: Template, frame: Frame, costs: Costs) -> list[ShownPiece]:
    """Return the pieces of other files that a frame's prompt shows, in order; each costs what its last token does."""
    prompt, found = frame.prompt, list[ShownPiece]()
    ends = _cost_ends(costs, prompt.tokens)
    for each, tokens, end in placed(tokenizer, template, prompt.parts, frame.plan.context):
        cost: PartCost = next(cost for cost, ended in ends if end <= ended)
        lines = tuple(line + 1 for line in each.lines)
        found.append(ShownPiece(each.place, each.path, each.file, lines, each.why, tokens, cost))
    return found


def prompt_parts(tokenizer: Tokenizer, prompt: Prompt, costs: Costs) -> list[ExplainedPart]:
    """Return a prompt in order, split where its part or the cost changes; the texts together are the whole prompt."""
    ends, start, found = _cost_ends(costs, prompt.tokens), 0, list[ExplainedPart]()
    for part in prompt.parts:
        # Text of the window that looks like a marker is text.
        decode = _decoder(tokenizer) if part.name in WINDOW_PARTS else tokenizer.decode
        for cost, from_here, to_here in _overlaps(ends, start, start + len(part.ids)):
            text = decode(part.ids[from_here - start : to_here - start])
            found.append(ExplainedPart(part.name, text, to_here - from_here, cost))
        start += len(part.ids)
    return found


def suggestion(tokenizer: Tokenizer, answer: Answer | None, origin: AnswerOrigin | None) -> dict[str, object] | None:
    """Return what an answer showed and hid as plain values, with who said each word; None if that is nothing.

    `origin` is what the last answer was made from.
    """
    if answer is None or not (answer.text or answer.hidden):
        return None
    if origin and origin.likelihood.text[origin.start :] != answer.text + answer.hidden:
        origin = None
    words, at = list[dict[str, object]](), origin.start if origin else 0
    for text, probability in answer.words:
        said = _origin_shares(tokenizer, origin, at, at + len(text)) if origin else UNKNOWN
        words.append({"text": text, "probability": probability, **said, "source": answer.source or None})
        at += len(text)
    return {"shown": answer.text, "hidden": answer.hidden, "words": words}


def spent_on(prompt: Prompt, answer: Answer | None) -> Costs | None:
    """Return an answer's costs if it was made from this prompt, else None."""
    if answer is None:
        return None
    costs = answer.costs
    spent = (costs.head, costs.tail, costs.typed, costs.reused + costs.recomputed)
    sizes = (prompt.size("head"), prompt.size("tail"), prompt.size("typed"), prompt.tokens)
    return costs if spent == sizes else None


def _origin_shares(tokenizer: Tokenizer, origin: AnswerOrigin, start: int, end: int) -> dict[str, object]:
    """Return the shares of who said some characters, and the places if the repository said enough of them."""
    likelihood, counts = origin.likelihood, origin.counts
    shares, sources = likelihood.shares(start, end), list[dict[str, object]]()
    if counts and shares.counts >= LEAST_SHARE:
        text = likelihood.text[start:end]
        begin = start + (len(text) - len(text.lstrip()) if text.strip() else 0)
        for place in likelihood.places(counts, begin, end, MOST_PLACES):
            line = _line(tokenizer, counts.ids_of(place.path), place.offset)
            sources.append({"path": place.path, "line": line, "tokens": place.length})
    return {"model": shares.model, "file": shares.file, "repository": shares.counts, "from": sources}


def _line(tokenizer: Tokenizer, ids: Ids, offset: int) -> int:
    """Return the line, from 1, on which what a token of a file says begins."""
    *before, said = (tokenizer.token_bytes[int(token)] for token in ids[: offset + 1])
    blank = said[: len(said) - len(said.lstrip())] if said.strip() else b""
    return 1 + b"".join(before).count(b"\n") + blank.count(b"\n")


def _cost_ends(costs: Costs, tokens: int) -> list[tuple[PartCost, int]]:
    """Return where each cost ends in a prompt: an arena holds a beginning, and fetched rows follow."""
    held = costs.reused - costs.fetched
    return [
        ("kept", held - min(costs.ahead, held)),
        ("ahead", held),
        ("disk", costs.reused),
        ("recomputed", tokens),
    ]


def _overlaps(ends: list[tuple[PartCost, int]], start: int, end: int) -> Iterator[tuple[PartCost, int, int]]:
    begun = 0
    for cost, ended in ends:
        if max(begun, start) < min(ended, end):
            yield cost, max(begun, start), min(ended, end)
        begun = ended


def _decoder(tokenizer: Tokenizer) -> Callable[[Ids], str]:
    """Return a function that decodes one piece after another: a character that is cut belongs to the later piece."""
    decoder = getincrementaldecoder("utf-8")("replace")

    def decode(ids: Ids) -> str:
        return decoder.decode(b"".join(tokenizer.token_bytes[int(token)] for token in ids))

    return decode
