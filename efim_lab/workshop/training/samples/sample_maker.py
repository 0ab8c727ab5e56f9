"""Turns a window of a document into a training sequence: plain text, or one of five infilling orders.

Texts are tokenized as in the server: with the runtime's own tokenizer, healing and rule for closers.
"""

import random
from dataclasses import dataclass

import numpy as np

from efim_lab.workshop.training.samples import bpe, fragments, spans
from efim_lab.workshop.training.samples.packages import PackageMates
from model_runtime.prompt.prompt import heal, order_parts, window_ids
from model_runtime.prompt.template import Template, find_template
from model_runtime.prompt.tokenizer import Tokenizer

TAIL_SHARE = 0.25  # of a window's characters, at most
EXCERPT_SHARE, MOST_EXCERPT_TOKENS = 0.4, 512  # of a sample's tokens, at most
_NEARBY = 600  # characters on each side of a span that say which chunk of another file is like them


@dataclass(frozen=True, slots=True)
class Shares:
    """The weights of the kinds of samples that windows become.

    `fim` is PSM order, `fragments` is FIM over fragments, `efim` is EFIM's order with a random increment, `served`
    is this server's prompts, and `repository` the same after excerpts of other files. The share `cut` of these two is
    not healed but cut at the cursor, even inside words; the share `whole` of `repository` is seen whole, the rest
    with isolated excerpts (`masks.py`).
    """

    plain: float = 0.2
    fim: float = 0.1
    fragments: float = 0.15
    efim: float = 0.15
    served: float = 0.4
    cut: float = 0.25
    repository: float = 0.0
    whole: float = 0.2


# Words are cut only next to a FIM marker.
WITHOUT_FRAGMENTS = Shares(plain=0.25, fim=0.35, fragments=0, efim=0, served=0.4, cut=0)


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """A training sequence; only a plain one may be split over rows."""

    ids: list[int]
    plain: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a model's samples: its template, and the token that ends a text or a completion."""

    template: Template
    end: int


class SampleMaker:
    """Makes samples of at most `limit` tokens with one tokenizer; the default layout is the embedded model's."""

    def __init__(self, tokenizer: Tokenizer, shares: Shares, limit: int, layout: Layout | None = None) -> None:
        self.tokenizer, self.shares, self.limit = tokenizer, shares, limit
        self._layout = layout or Layout(find_template(tokenizer), bpe.ID[bpe.END])
        self._frame = len(self._joined([], [], [])) + len(self._layout.template.lead)

    def make(
        self, window: str, is_end: bool, rng: random.Random, others: PackageMates | None = None
    ) -> TrainingSample:
        """Make one sample from a window of lines; `is_end` is whether its document ends there.

        Without `others`, or if these have nothing to show, it has no excerpts.
        """
        shares = self.shares

        def repository(window: str, rng: random.Random) -> list[int] | None:
            return self.repository(window, rng, others)

        kinds = {self.fim: shares.fim, self.fragments: shares.fragments, self.efim: shares.efim}
        kinds |= {self.served: shares.served, repository: shares.repository, None: shares.plain}
        (kind,) = rng.choices(list(kinds), list(kinds.values()))
        ids = kind(window, rng) if kind else None
        if ids is not None:
            return TrainingSample(ids, plain=False)
        return TrainingSample(self._encode(window) + [self._layout.end] * is_end, plain=True)

    def fim(self, window: str, rng: random.Random) -> list[int] | None:
        """Make PREFIX P SUFFIX S MIDDLE M END; None if the window cannot be cut or does not fit."""
        span = spans.choose_span(window, rng)
        if span is None:
            return None
        middle = self._encode(window[span.cursor : span.end])
        return self._fitted(window[: span.cursor], self._tail(window, span), middle, self.limit)

    def fragments(self, window: str, rng: random.Random) -> list[int] | None:
        """Make FIM as the paper trains it: the ids of a text's fragments, joined and cut in three at random."""
        ids = self._in_fragments(window, rng)
        start, end = sorted(rng.choices(range(len(ids) + 1), k=2))
        sample = self._joined(ids[:start], ids[end:], ids[start:end])
        return sample if len(sample) <= self.limit else None

    def efim(self, window: str, rng: random.Random) -> list[int] | None:
        """Make PREFIX P SUFFIX S MIDDLE increment M END; the increment, up to 200 characters, is in fragments."""
        span = spans.choose_span(window, rng)
        if span is None:
            return None
        start = max(0, span.cursor - rng.randint(1, fragments.LONGEST_FRAGMENT))
        increment = self._in_fragments(window[start : span.cursor], rng)
        after = increment + self._encode(window[span.cursor : span.end])
        return self._fitted(window[:start], self._tail(window, span), after, self.limit)

    def served(self, window: str, rng: random.Random) -> list[int] | None:
        """Make PREFIX head SUFFIX tail MIDDLE typed, the completion, END; cut and healed as in the server."""
        span = spans.choose_span(window, rng)
        return None if span is None else self._served(window, span, rng, self.limit)

    def repository(self, window: str, rng: random.Random, others: PackageMates | None) -> list[int] | None:
        """Make a served prompt after excerpts of other files: isolated ones, or as Qwen2.5-Coder has a repository.

        The latter is `REPOSITORY name`, `FILE path text` for each excerpt, and `FILE path` of the document.
        """
        span = spans.choose_span(window, rng)
        return None if span is None else self.around(window, span, rng, others)

    def around(
        self, window: str, span: spans.Span, rng: random.Random, others: PackageMates | None
    ) -> list[int] | None:
        """Make the same at a span of the window, without excerpts if there are no `others`."""
        if others is None:
            return self._served(window, span, rng, self.limit)
        query = window[max(0, span.anchor - _NEARBY) : span.cursor] + window[span.end : span.end + _NEARBY]
        is_whole = rng.random() < self.shares.whole
        front = [bpe.ID[bpe.REPOSITORY], *self._encode(f"{others.package.name}\n")] if is_whole else []
        end = [bpe.ID[bpe.FILE], *self._encode(f"{others.path}\n")] if is_whole else []
        most = min(MOST_EXCERPT_TOKENS, int(self.limit * EXCERPT_SHARE))
        for path, text in others.excerpts(window, query, rng):
            excerpt = [bpe.ID[bpe.FILE], *self._encode(f"{path}\n{text}")]
            if len(front) + len(excerpt) + len(end) <= most:
                front += excerpt
        front += end
        prompt = self._served(window, span, rng, self.limit - len(front))
        return prompt and front + prompt

    def _served(self, window: str, span: spans.Span, rng: random.Random, limit: int) -> list[int] | None:
        span = spans.as_served(window, span)
        typed = window[span.anchor : span.cursor]
        seam = span.cursor if rng.random() < self.shares.cut else span.anchor + len(heal(self.tokenizer, typed)[0])
        after = self._encode(window[span.anchor : seam]) + self._encode(window[seam : span.end])
        return self._fitted(window[: span.anchor], self._tail(window, span), after, limit)

    def _tail(self, window: str, span: spans.Span) -> list[int]:
        """Encode whole lines of the text after the span, up to a quarter of the window's characters."""
        tail, most = window[span.tail :], int(TAIL_SHARE * len(window))
        return self._encode(tail if len(tail) <= most else tail[: tail.rfind("\n", 0, most) + 1])

    def _fitted(self, head: str, tail: list[int], after: list[int], limit: int) -> list[int] | None:
        """Join a prompt's parts with as many of the head's last lines as fit in `limit` tokens."""
        room = limit - len(tail) - len(after) - self._frame
        return self._joined(self._last_lines(head, room), tail, after) if room >= 0 else None

    def _last_lines(self, head: str, room: int) -> list[int]:
        size = 0
        for piece, count in reversed(self.tokenizer.pieces(head)):
            if (room := room - count) < 0:
                break
            size += len(piece)
        return self._head(head[len(head) - size :])

    def _head(self, text: str) -> list[int]:
        return self._encode(text and self._layout.template.lead + text)

    def _in_fragments(self, text: str, rng: random.Random) -> list[int]:
        return [token for piece in fragments.cut_fragments(text, rng) for token in self._encode(piece)]

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).tolist()

    def _joined(self, head: list[int], tail: list[int], after: list[int]) -> list[int]:
        parts = (np.array(part, dtype=np.int32) for part in (head, tail, after))
        return [*window_ids(order_parts(self._layout.template, *parts)).tolist(), self._layout.end]
