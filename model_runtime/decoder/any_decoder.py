"""What the engine sees of a decoder, whichever it is. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.logits import Logits

Rotations = tuple[npt.NDArray[np.complex64], ...]

CHUNK = 64  # rows of one prefill pass on a CPU: how long a newer request may have to wait
TORCH_ATTENTION = "scaled_dot_product_attention"
TORCH_ATTENTION_REASON = "the model runs on the CPU, where xformers has no kernel"


class Span(NamedTuple):
    """Tokens that a pass appends to one arena; its last `rows` get logits.

    With `recomputed`, ascending places of tokens that the arena holds, these are computed again where they lie: each
    attends to all keys up to its own, and all are written before any is read. The arena stays as long as it is.
    """

    ids: Ids
    arena: Arena
    rows: int = 1
    recomputed: Ids | None = None


def parts_of(span: Span, most: int) -> list[Span]:
    """Cut a span into such of at most `most` tokens, in their order; each has its share of the rows with logits."""
    ids, arena, rows, recomputed = span
    if len(ids) <= most:
        return [span]
    parts = list[Span]()
    for start in range(0, len(ids), most):
        end = min(start + most, len(ids))
        wanted = max(0, end - max(start, len(ids) - rows))
        parts.append(Span(ids[start:end], arena, wanted, None if recomputed is None else recomputed[start:end]))
    return parts


class TopTokens(NamedTuple):
    """The likeliest tokens after a row, chosen where its logits were computed.

    `ids` [n] and `logits` [n] are sorted, the likeliest first and of equals the first. `total` is the logarithm of
    the sum of all exponentials, so that exp(logits - total) are probabilities. `choices` is how many tokens they were
    chosen from.
    """

    ids: Ids
    logits: npt.NDArray[np.float32]
    total: float
    choices: int


class AnyDecoder(Protocol):
    """Any of the decoders: torch's, the compiled one, a GPU's or transformers'. Used on the engine thread only."""

    @property
    def batch_invariant(self) -> bool:
        """Whether a row has the same bits whichever other rows a pass computes."""
        ...

    @property
    def top_tokens(self) -> list[TopTokens] | None:
        """The likeliest tokens after each row that the last pass returned, or None if its logits must be searched."""
        ...

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        ...

    @property
    def chunk(self) -> int:
        """Rows of one prefill pass, which a newer request may have to wait for."""
        ...

    @property
    def rotations(self) -> Rotations | None:
        """Factors of the keys in arenas, at least [excerpt_rows + capacity, head_dim / 2], or None if unknown.

        There is a table for each of the config's `ropes`.
        """
        ...

    def forward(self, ids: Ids, arena: Arena, rows: int = 1, /) -> Logits:
        """Append `ids` [n] to the arena and return the logits [rows, vocab] that follow each of the last `rows`."""
        ...

    def forward_spans(self, spans: Sequence[Span], /) -> Logits:
        """Append to several different arenas in one pass; returns the spans' logits [sum of rows, vocab]."""
        ...


class Runtime(NamedTuple):
    """A decoder, a function that makes its arenas (at most `arenas`), and the description of both.

    `scratch` makes an arena without excerpt rows, at least as large as one, to compute excerpts in. `kv` differs
    whenever keys and values are computed in a different way; `bf16` says if that is their precision.
    """

    parameters: int
    decoder: AnyDecoder
    arena: Callable[[], Arena]
    arenas: int
    weights: str
    kv: str
    name: str
    reason: str
    attention: str
    attention_reason: str
    bf16: bool = False
    scratch: Callable[[], Arena] | None = None
