"""One answer in the making: tokens that a server chose, while they spell the stub and the rule allows them."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from model_runtime.engine.decode import DecodeStats
from model_runtime.engine.engine import GenerateJob, Generation
from model_runtime.engine.output import Output, decoded
from model_runtime.engine.sampler import LEAST_CHANCE, LEAST_TOTAL, Choice, Sampler
from model_runtime.ids import Ids
from model_runtime.remote.dialects import NextToken, StreamPiece


class StreamedAnswer:
    """The answer to a job so far.

    The server decodes freely. A token that does not spell the stub is replaced by the likeliest that does, of those
    that the server named; if none of them does, the server has to be asked for such a token.
    """

    def __init__(self, job: GenerateJob, sampler: Sampler) -> None:
        """Start without tokens."""
        self._job, self._sampler, self._vocabulary = job, sampler, len(sampler.token_bytes)
        self._output = Output(sampler, job.prompt.stub, job.rule)
        self._choices, self._is_cut = list[Choice](), False
        self._text, self._spelled = "", b""  # of one request
        self._is_text_known = True  # after a part of a character, vLLM sends text of the prompt again
        self._started, self._first_at = perf_counter(), 0.0
        self._requests, self._reused = 0, dict[int, int]()  # tokens not computed for a request, as the server says

    @property
    def is_over(self) -> bool:
        """Whether nothing more is wanted."""
        return self._output.complete or self._is_cut or self.left <= 0

    @property
    def left(self) -> int:
        """The most tokens that may follow."""
        return self._job.limit - len(self._choices)

    @property
    def stub(self) -> bytes:
        """What has still to be spelled."""
        return self._output.stub

    @property
    def wants_one_line(self) -> bool:
        """Whether a line's end ends the answer, and the server can see one: not after a part of a character."""
        return self._job.rule.cut("x\n") is not None and b"\n" not in self.stub and not self._ends_in_a_character

    @property
    def ids(self) -> Ids:
        """The prompt with the tokens chosen so far."""
        chosen = np.array([choice.token for choice in self._choices], dtype=np.int32)
        return np.concatenate((self._job.prompt.ids, chosen))

    def begin(self) -> None:
        """Begin to take what answers another request."""
        self._requests += 1
        self._text, self._spelled = "", b""
        self._is_text_known = not self._ends_in_a_character

    def count(self, piece: StreamPiece) -> None:
        """Note what a piece says of costs."""
        if piece.reused is not None:
            self._reused[self._requests] = piece.reused

    def take(self, piece: StreamPiece) -> bool:
        """Append what came, up to where it departs from the stub; return whether the server's next token follows.

        Raises ValueError for tokens that are none, and if they do not spell the text that came with them.
        """
        named = (token for each in piece.tokens for token in (each.token, *each.likely))
        if not all(0 <= token < self._vocabulary for token in named):
            raise ValueError
        if piece.tokens and self._is_text_known and not self._agrees(piece):
            self._is_cut = True
            return False
        for token in piece.tokens:
            if not self._spells(token.token):
                self._replace(token)
                return False
            self._append(token.token, token.chance, token.likely)
            if self.is_over:
                return False
        if piece.ended and not self._output.complete:
            self._append(min(self._sampler.ends), 1.0, {})
        return not piece.ended

    def generation(self, known: int) -> Generation:
        """Return the generation; `known` tokens were reused if the server does not say so."""
        now, output = perf_counter(), self._output
        tokens = self._job.prompt.tokens
        reused = min(tokens, self._reused.get(1, known))
        first = self._first_at or now
        return Generation(
            text=output.text,
            choices=tuple(self._choices),
            confidence=output.confidence,
            likelihood=output.likelihood,
            reused=reused,
            fetched=0,
            approximate=reused,
            stats=DecodeStats(recomputed=tokens - reused, passes=len(self._choices)),
            restore_ms=0.0,
            prefill_ms=(first - self._started) * 1e3,
            decode_ms=(now - first) * 1e3,
            complete=output.complete,
        )

    def append_own(self, token: int) -> None:
        """Append a token of the stub whose chance the server cannot be asked for."""
        self._choices.append(Choice(token, 1.0, *_likely({token: 1.0}), whole=False))
        self._output.append(self._choices[-1])

    @property
    def _ends_in_a_character(self) -> bool:
        spelled = b"".join(self._sampler.token_bytes[choice.token] for choice in self._choices)
        return len(decoded(spelled).encode()) < len(spelled.replace(b"\r\n", b"\n"))

    def _spells(self, token: int) -> bool:
        return not self.stub or self._sampler.spells(token, self.stub)

    def _replace(self, departing: NextToken) -> None:
        fits = {token: chance for token, chance in departing.likely.items() if self._spells(token)}
        if fits:
            best = max(fits, key=lambda token: fits[token])
            self._append(best, fits[best], departing.likely)

    def _append(self, token: int, chance: float, likely: Mapping[int, float]) -> None:
        self._first_at = self._first_at or perf_counter()
        known = {token: chance, **likely}
        if chance >= LEAST_CHANCE or not self.stub:
            self._choices.append(Choice(token, chance, *_likely(known)))
        else:  # as the local engine does: among those that fit alone
            fits = {each: one for each, one in known.items() if self._spells(each)}
            total = max(sum(fits.values()), LEAST_TOTAL)
            among = {each: one / total for each, one in fits.items()}
            self._choices.append(Choice(token, max(among[token], LEAST_CHANCE), *_likely(among), whole=False))
        self._output.append(self._choices[-1])

    def _agrees(self, piece: StreamPiece) -> bool:
        """Return whether the tokens since `begin` spell the text that came with them.

        A text may be shorter. They do not where a server kept back tokens that are a part of a character. ValueError
        if they are from another vocabulary.
        """
        self._text += piece.text
        self._spelled += b"".join(self._sampler.token_bytes[each.token] for each in piece.tokens)
        spelled, text = decoded(self._spelled), decoded(self._text.encode("utf-8", "replace"))
        if spelled.startswith(text):
            return True
        if spelled.isascii() and text.isascii():
            raise ValueError
        return False


def _likely(chances: Mapping[int, float]) -> tuple[Ids, np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """Return the likely tokens and their chances, by token."""
    likely = sorted(token for token, chance in chances.items() if chance >= LEAST_CHANCE)
    return np.array(likely, dtype=np.int32), np.array([chances[each] for each in likely], dtype=np.float32)
