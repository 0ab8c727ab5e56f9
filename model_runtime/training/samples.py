"""Turns a window of a document into a training sequence: plain text, or one of three infilling orders."""

import random
from dataclasses import dataclass
from functools import partial

from tokenizers import Tokenizer

from model_runtime.training import bpe, fragments, spans

HEALED = 0.75
TAIL_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Shares:
    """How often a window becomes each kind of sample; `published` is EFIM's order, `served` this server's."""

    plain: float = 0.25
    psm: float = 0.1
    published: float = 0.15
    served: float = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """A training sequence; only a plain one may be split over rows."""

    ids: list[int]
    plain: bool


class SampleMaker:
    """Makes samples of at most `limit` tokens with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, shares: Shares, limit: int) -> None:
        self.tokenizer = tokenizer
        self.limit = limit
        self._weights = (shares.psm, shares.published, shares.served, shares.plain)

    def make(self, window: str, is_end: bool, rng: random.Random) -> Sample:
        """Make one sample of a window of lines; `is_end` tells that its document ends there."""
        kind = rng.choices((self.psm, self.published, self.served, None), self._weights)[0]
        ids = kind(window, rng) if kind else None
        if ids is not None:
            return Sample(ids, plain=False)
        return Sample(self._encode(window) + [bpe.ID[bpe.END]] * is_end, plain=True)

    def psm(self, window: str, rng: random.Random) -> list[int] | None:
        """PREFIX P SUFFIX S MIDDLE M END; None where the window cannot be cut or does not fit."""
        span = spans.choose(window, rng)
        if span is None:
            return None
        tail = self._encode(_capped(window[span.tail :], len(window)))
        return self._fitted(window[: span.cursor], tail, self._encode(window[span.cursor : span.end]))

    def published(self, window: str, rng: random.Random) -> list[int] | None:
        """PREFIX P SUFFIX S MIDDLE increment M END; the increment, and half of the time P and S, in fragments."""
        prefix_end = rng.randint(0, len(window))
        cursor = prefix_end + rng.randint(1, fragments.LONGEST)
        end = cursor + rng.randint(1, 2 * fragments.LONGEST)
        encode = self._encode if rng.random() < 0.5 else partial(self._in_fragments, rng=rng)
        increment = self._in_fragments(window[prefix_end:cursor], rng)
        after = increment + self._encode(window[cursor:end])
        ids = _joined(encode(window[:prefix_end]), encode(window[end:]), after)
        return ids if len(ids) <= self.limit else None

    def served(self, window: str, rng: random.Random) -> list[int] | None:
        """PREFIX head SUFFIX tail MIDDLE typed, the completion, END; cut and healed as the server does it."""
        span = spans.choose(window, rng)
        if span is None:
            return None
        seam = self._healed(window, span) if rng.random() < HEALED else span.cursor
        tail = self._encode(_capped(window[span.tail :], len(window)))
        typed = self._encode(window[span.anchor : seam])
        return self._fitted(window[: span.anchor], tail, typed + self._encode(window[seam : span.end]))

    def _healed(self, window: str, span: spans.Span) -> int:
        """Where the pre-token that the cursor ends in begins."""
        line = window[window.rfind("\n", span.anchor, span.cursor) + 1 or span.anchor : span.cursor]
        pieces = self.tokenizer.pre_tokenizer.pre_tokenize_str(line)
        return span.cursor - len(line) + pieces[-1][1][0] if pieces else span.cursor

    def _fitted(self, head: str, tail: list[int], after: list[int]) -> list[int] | None:
        """Join a prompt's parts, with as many of the head's last lines as fit."""
        room = self.limit - len(tail) - len(after) - 4
        return _joined(self._last_lines(head, room), tail, after) if room >= 0 else None

    def _last_lines(self, head: str, room: int) -> list[int]:
        encoding = self.tokenizer.encode(head, add_special_tokens=False)
        over = len(encoding.ids) - room
        if over <= 0:
            return encoding.ids
        starts = (i for i in range(over, len(encoding.ids)) if head[encoding.offsets[i][0] - 1] == "\n")
        return encoding.ids[next(starts, len(encoding.ids)) :]

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _in_fragments(self, text: str, rng: random.Random) -> list[int]:
        return fragments.encode(self.tokenizer, fragments.cut(text, rng))


def _joined(head: list[int], tail: list[int], after: list[int]) -> list[int]:
    middle = [bpe.ID[bpe.SUFFIX], *tail, bpe.ID[bpe.MIDDLE], *after]
    return [bpe.ID[bpe.PREFIX], *head, *middle, bpe.ID[bpe.END]]


def _capped(tail: str, window: int) -> str:
    """Keep whole lines of a tail up to a quarter of the window's characters."""
    most = int(TAIL_SHARE * window)
    return tail if len(tail) <= most else tail[: tail.rfind("\n", 0, most) + 1]
