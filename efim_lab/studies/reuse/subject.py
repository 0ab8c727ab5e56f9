"""The model that is measured: its decoder, empty arenas, and prompts as token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from efim_lab.gate.evaluation.places.cursors import Context
from efim_lab.studies.reuse.places import Excerpt
from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Weights, read_weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.native.decoder import NativeDecoder, native_missing
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.loading.checkpoint_reader import Checkpoint, read_checkpoint
from model_runtime.prompt.prompt import build

NEW_TOKENS = 24  # of a completion

Rows = npt.NDArray[np.float32]  # logits, [vocab] or [tokens, vocab]


@dataclass(frozen=True)
class Target:
    """What should follow a prompt: the `stub`, which new tokens have to spell, and the `rest` of the line."""

    stub: bytes
    rest: str


class ReuseSubject:
    """A checkpoint on the CPU; int8 in the compiled decoder, or fp32 in torch where that cannot run."""

    def __init__(self, folder: Path) -> None:
        """Load a checkpoint folder; raises ModelError."""
        self.checkpoint: Checkpoint = read_checkpoint(folder)
        _, config, self.tokenizer, self.template, _ = self.checkpoint
        self.config = replace(config, excerpt_rows=0)  # all text is ordinary tokens here
        if self.config.foreign:
            raise ModelError(f"{folder} is computed by transformers, which cannot compute rows in place: use another")
        self.weights: Weights = read_weights(folder, self.config)
        self.decoder = decoder_of(self.config, self.weights)
        self.decoder_name = "int8 compiled" if isinstance(self.decoder, NativeDecoder) else "fp32 torch"
        self._special = frozenset((*self.tokenizer.special.values(), *self.config.end_ids, *self.template.ends))
        self._spelling: dict[bytes, npt.NDArray[np.int64]] = {}

    def arena(self) -> Arena:
        """Return an empty arena for the model's longest prompt."""
        return DenseArena(self.config, self.config.context)

    def window(self, context: Context, rest: str) -> tuple[Ids, Target]:
        """Return the prompt of a window, and what should follow it."""
        prompt = build(self.tokenizer, self.template, context.head, context.tail, context.typed)
        return prompt.ids, Target(prompt.stub, rest)

    def excerpt(self, excerpt: Excerpt) -> Ids:
        """Return the tokens of an excerpt, with its path in a comment before it."""
        return self.tokenizer.encode(f"# {excerpt.path}\n{excerpt.text}")

    def joined(self, excerpts: Sequence[Ids], window: Ids) -> Ids:
        """Return the plain layout `bos excerpts PREFIX ...`: ordinary tokens, one after the other."""
        bos = len(self.template.bos)
        return np.concatenate((window[:bos], *excerpts, window[bos:]))

    def computed(self, ids: Ids) -> Arena:
        """Return an arena that holds tokens, all of them computed."""
        arena = self.arena()
        self.extend(arena, ids)
        return arena

    def extend(self, arena: Arena, ids: Ids) -> None:
        """Append tokens in passes of the decoder's chunk."""
        for start in range(0, len(ids), self.decoder.chunk):
            self.decoder.forward(ids[start : start + self.decoder.chunk], arena)

    def choose(self, logits: Rows, tokens: Sequence[int], target: Target) -> int:
        """Return the likeliest token after `tokens` that can spell the rest of the stub."""
        spelled = b"".join(self.tokenizer.token_bytes[token] for token in tokens)
        if not (left := target.stub[len(spelled) :]):
            return int(logits.argmax())
        if left not in self._spelling:
            tokens = [i for i, each in enumerate(self.tokenizer.token_bytes[: len(logits)]) if _spells(each, left)]
            self._spelling[left] = np.array(tokens, dtype=np.int64)
        fitting = self._spelling[left]
        return int(fitting[logits[fitting].argmax()])

    def is_right(self, tokens: Sequence[int], target: Target) -> bool:
        """Return whether a completion is the line's rest."""
        text = b"".join(self.tokenizer.token_bytes[token] for token in tokens if not self._is_special(token))
        line = text[len(target.stub) :].decode("utf-8", "replace").split("\n")[0]
        return line.rstrip() == target.rest.rstrip()

    def ends(self, token: int) -> bool:
        """Return whether a token ends a line or the text."""
        return self._is_special(token) or b"\n" in self.tokenizer.token_bytes[token]

    def _is_special(self, token: int) -> bool:
        return token in self._special


def _spells(token: bytes, left: bytes) -> bool:
    return bool(token) and (token.startswith(left) or left.startswith(token))


def decoder_of(config: ModelConfig, weights: Weights) -> AnyDecoder:
    """Return the decoder of some weights, the same on every run."""
    if native_missing(config) is None:
        return NativeDecoder(config, weights, "int8", 1)
    from model_runtime.decoder.decoder import Decoder

    return Decoder(config, weights, "fp32")
