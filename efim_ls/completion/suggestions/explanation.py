"""Explains an answer to people: what each part of its prompt cost, and who said each word.

Everything here runs when someone asks, never for a keystroke.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from efim_ls.request import Answer, Costs
from model_runtime.ids import Ids
from model_runtime.prompt.prompt import PartName, Prompt, part_sizes
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer

PartCost = Literal["kept", "ahead", "disk", "recomputed"]


class PromptPart(NamedTuple):
    """A piece of a prompt that lies in one part of it and has one cost.

    `cost` says where its keys and values came from: `kept` in memory, computed `ahead` of need, read back from where
    they were saved (`disk`), or `recomputed`.
    """

    part: PartName
    text: str
    tokens: int
    cost: PartCost


def prompt_parts(tokenizer: Tokenizer, template: Template, prompt: Prompt, costs: Costs) -> list[PromptPart]:
    """Return a prompt in order, split where its part or the cost changes; the texts together are the whole prompt."""
    sizes, ends = part_sizes(template, prompt), _cost_ends(costs, len(prompt.ids))
    found, start = list[PromptPart](), 0
    for name, size in sizes:
        decode = _decoder(tokenizer) if name != "marker" else tokenizer.decode
        for cost, from_here, to_here in _overlaps(ends, start, start + size):
            text = decode(prompt.ids[from_here:to_here])
            found.append(PromptPart(name, text, to_here - from_here, cost))
        start += size
    return found


def suggestion(answer: Answer | None) -> dict[str, object] | None:
    """Return what an answer showed and hid as plain values, with who said each word; None if that is nothing."""
    if answer is None or not (answer.text or answer.hidden):
        return None
    return {"shown": answer.text, "hidden": answer.hidden, "words": [_word(*each) for each in answer.words]}


def spent_on(prompt: Prompt, answer: Answer | None) -> Costs | None:
    """Return an answer's costs if it was made from this prompt, else None."""
    if answer is None:
        return None
    costs = answer.costs
    sizes = (costs.head, costs.tail, costs.typed, costs.reused + costs.recomputed)
    return costs if sizes == (prompt.head, prompt.tail, prompt.typed, len(prompt.ids)) else None


def _word(text: str, probability: float) -> dict[str, object]:
    return {"text": text, "probability": probability, "model": None, "file": None, "repository": None, "from": []}


def _cost_ends(costs: Costs, tokens: int) -> list[tuple[PartCost, int]]:
    """Return where each cost ends in a prompt: an arena holds a beginning, and what is fetched follows that."""
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
