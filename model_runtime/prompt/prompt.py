"""EFIM prompts: `PREFIX head SUFFIX tail MIDDLE typed` as token ids (arXiv 2505.21889), healed at the cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from model_runtime.counts.snapshot import CountsView
from model_runtime.ids import Ids
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import NOTHING_APART, CommittedParts, Mask, SequenceKey, TextsApart, texts_apart

WINDOW_PARTS = ("head", "tail", "typed")  # names; others are "marker", and what an option names

NO_IDS = np.zeros(0, dtype=np.int32)
HISTORY_BREAK = np.array([-1], dtype=np.int32)  # no token: matches of the n-grams do not cross it
LONGEST_STUB_BYTES = 48  # and at most as many new tokens to spell them again; a longer word stays in the prompt
MARKERS_KEPT = 64  # whose ids stay arrays: as many as some templates have


@dataclass(frozen=True)
class Surroundings:
    """Texts that no prompt has room for, read by the n-grams only: `before` the head, `after` the tail, others.

    `others` are other files, the least important first.
    """

    before: str = ""
    after: str = ""
    others: tuple[str, ...] = ()


NO_SURROUNDINGS = Surroundings()


class PromptPart(NamedTuple):
    """A piece of a prompt with its token ids, which attend to all parts before it that they see.

    `sees_excerpts` is false of the window's parts that excerpts apart are hidden from. `origin` names the document
    that an excerpt apart is from; it is None for a part of the window.
    """

    name: str
    ids: Ids
    sees_excerpts: bool = True
    origin: str | None = None


class LaidOut(NamedTuple):
    """Text of other files as parts of a prompt, by the place where they stand.

    `front` stands before the prefix's marker, `inside` behind it, and `behind` behind the tail. Or all of them are
    `apart`: each sees itself alone, and is seen from where the mask says on.
    """

    front: tuple[PromptPart, ...] = ()
    inside: tuple[PromptPart, ...] = ()
    behind: tuple[PromptPart, ...] = ()
    apart: tuple[PromptPart, ...] = ()
    mask: Mask = "typed"

    @property
    def parts(self) -> tuple[PromptPart, ...]:
        """All parts, in their order."""
        return self.front + self.inside + self.behind + self.apart


NOTHING_LAID_OUT = LaidOut()


@dataclass(frozen=True)
class Prompt:
    """Parts with the token ids to compute, and the text that the first new tokens must spell.

    `stub` is the unfinished word at the cursor: taken out of the prompt so that the model can finish it with the
    tokens it would have used, and so that typing on inside the word leaves the prompt unchanged. `history` is what
    the n-grams read, the nearest text last: other files, what follows the cursor, what precedes it, with breaks
    between them. It also reads the counts of `counts`.
    """

    parts: tuple[PromptPart, ...]
    stub: bytes
    history: Ids
    counts: CountsView | None = None

    @cached_property
    def ids(self) -> Ids:
        """The token ids of the window: without excerpts apart, which have separate rows."""
        return window_ids(self.parts)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where head and tail end, and all, as counts of `ids`: a change behind leaves the ids before."""
        window = [part for part in self.parts if part.origin is None]
        ends = list(accumulate(len(part.ids) for part in window))
        inner = [end for part, end in zip(window, ends, strict=True) if part.name in ("head", "tail")]
        return (*inner, ends[-1])

    @property
    def origins(self) -> tuple[str, ...]:
        """The documents that the excerpts apart are from, in their order."""
        return tuple(part.origin for part in self.parts if part.origin is not None)

    @property
    def before_excerpts(self) -> int:
        """How many of the first `ids` do not see the excerpts apart."""
        return sum(len(part.ids) for part in self.parts if part.origin is None and not part.sees_excerpts)

    @cached_property
    def apart(self) -> TextsApart:
        """The excerpts apart and what does not see them, to compare with others."""
        excerpts = [part.ids for part in self.parts if part.origin is not None]
        return texts_apart(excerpts, self.before_excerpts) if excerpts else NOTHING_APART

    @cached_property
    def key(self) -> SequenceKey:
        """What the keys and values of `ids` depend on."""
        return SequenceKey(self.ids, self.apart)

    @property
    def tokens(self) -> int:
        """Number of tokens, including excerpts apart."""
        return count_tokens(self.parts)

    @property
    def sizes(self) -> Counter[str]:
        """Numbers of tokens of the parts, by name."""
        return sizes_of(self.parts)

    def size(self, name: str) -> int:
        """Return the number of tokens of the parts with this name."""
        return self.sizes[name]

    def committed(self, is_committed: Callable[[str], bool], documents: frozenset[str]) -> CommittedParts:
        """Return the committed parts, by name; text of other documents is if it is from these."""
        tokens, seen = 0, documents.issuperset(self.origins)
        for part in (part for part in self.parts if part.origin is None):
            if (part.sees_excerpts and not seen) or not (part.name == "marker" or is_committed(part.name)):
                break
            tokens += len(part.ids)
        return CommittedParts(tokens, documents.intersection(self.origins))


def order_parts(
    template: Template, head: Ids, tail: Ids, typed: Ids, *, context: LaidOut = NOTHING_LAID_OUT
) -> tuple[PromptPart, ...]:
    """Return the parts of a prompt in the template's order; FIM's and SPM's orders leave typed or head empty.

    Text of other files that changes least stands first and what changes often behind the tail, so that a change of
    this costs its own tokens and typed.
    """
    before = _marker(template.prefix), *context.inside, PromptPart("head", head)
    after = _marker(template.suffix), PromptPart("tail", tail)
    text = after + before if template.tail_first else before + after
    window = _marker(template.bos), *context.front, *text, *context.behind
    last = _marker(template.middle), PromptPart("typed", typed)
    if not context.apart:
        return window + last
    if context.mask == "head":
        return context.apart + window + last
    return tuple(part._replace(sees_excerpts=False) for part in window) + context.apart + last


def window_ids(parts: Iterable[PromptPart]) -> Ids:
    """Return the token ids of all parts but the excerpts apart."""
    return np.concatenate([part.ids for part in parts if part.origin is None])


def sizes_of(parts: Iterable[PromptPart]) -> Counter[str]:
    """Return the numbers of tokens of the parts, by name."""
    found = Counter[str]()
    for part in parts:
        found[part.name] += len(part.ids)
    return found


def count_tokens(parts: Iterable[PromptPart]) -> int:
    """Return the number of tokens of the parts."""
    return sum([len(part.ids) for part in parts])


def build(
    tokenizer: Tokenizer,
    template: Template,
    head: str,
    tail: str,
    typed: str,
    around: Surroundings = NO_SURROUNDINGS,
    context: LaidOut = NOTHING_LAID_OUT,
) -> Prompt:
    """Build the prompt; a pure function of its texts, whatever was built before."""
    done, stub = heal(tokenizer, typed)
    return assemble(tokenizer, template, head, tail, done, stub, around, context)


def assemble(
    tokenizer: Tokenizer,
    template: Template,
    head: str,
    tail: str,
    typed: str,
    stub: str = "",
    around: Surroundings = NO_SURROUNDINGS,
    context: LaidOut = NOTHING_LAID_OUT,
) -> Prompt:
    """Build the prompt without healing: `stub` has already been taken out of typed."""
    h, t, y = tokenizer.encode(head and template.lead + head), tokenizer.encode(tail), tokenizer.encode(typed)
    prompt = Prompt(
        order_parts(template, h, t, y, context=context),
        stub=stub.encode("utf-8", "replace"),
        history=np.concatenate((t, HISTORY_BREAK, h, y)),
    )
    return prompt if around == NO_SURROUNDINGS else surrounded(tokenizer, prompt, around)


def surrounded(tokenizer: Tokenizer, prompt: Prompt, around: Surroundings) -> Prompt:
    """Return a prompt that was built without surroundings, with these in its history."""
    others = [part for text in around.others for part in (tokenizer.encode(text), HISTORY_BREAK)]
    before, after = tokenizer.encode(around.before), tokenizer.encode(around.after)
    size = prompt.size("tail")
    tail, window = prompt.history[:size], prompt.history[size + len(HISTORY_BREAK) :]
    return replace(prompt, history=np.concatenate((*others, tail, after, HISTORY_BREAK, before, window)))


def history_of(tokenizer: Tokenizer, others: tuple[str, ...], above: str, line: str) -> tuple[Ids, bytes]:
    """Return the history and the stub of a prompt that no model reads: other texts, then what precedes the cursor.

    `others` are the least important first; `line` is the cursor's, up to the cursor.
    """
    done, stub = heal(tokenizer, line)
    apart = [part for text in others for part in (tokenizer.encode(text), HISTORY_BREAK)]
    history = np.concatenate((*apart, tokenizer.encode(above), tokenizer.encode(done)))
    return history, stub.encode("utf-8", "replace")


def heal(tokenizer: Tokenizer, typed: str) -> tuple[str, str]:
    """Split typed into what stays in the prompt and the stub, whose tokens may change as the user types on.

    A stub that is too long, or that no tokens spell, stays in the prompt.
    """
    cut = tokenizer.unfinished(typed)
    stub = typed[cut:].encode("utf-8", "replace")
    if len(stub) > LONGEST_STUB_BYTES or not tokenizer.spells(stub):
        return typed, ""
    return typed[:cut], typed[cut:]


@lru_cache(MARKERS_KEPT)
def _marker(ids: tuple[int, ...]) -> PromptPart:
    return PromptPart("marker", np.array(ids, dtype=np.int32))
