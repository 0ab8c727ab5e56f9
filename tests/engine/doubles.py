"""Engines that tell what they did, and a decoder that says what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from model_runtime.arena import Arena, ArenaPool
from model_runtime.config import ModelConfig, read_config
from model_runtime.decoder import Decoder
from model_runtime.engine import Engine, Generation
from model_runtime.ids import Ids
from model_runtime.linear import Format
from model_runtime.local_cache import LocalCache
from model_runtime.prompt import Prompt
from model_runtime.stops import StopRule
from model_runtime.tokenizer import Tokenizer
from model_runtime.weights import read_weights

ONE_LINE = StopRule(multiline=False, indent=0, max_lines=1)
ENDLESS = StopRule(multiline=True, indent=0, max_lines=10_000)
CACHE = LocalCache((0.05, 0.15, 0.35, 0.55, 0.7, 0.8, 0.85, 0.9), half_life=500.0)


def never() -> bool:
    """Nobody wants it stopped."""
    return False


def decoder_of(folder: Path, form: Format = "fp32") -> Decoder:
    """The decoder of a checkpoint folder."""
    config = read_config(folder)
    return Decoder(config, read_weights(folder, config), form)


@dataclass
class Pick:
    """A token that was decoded, and by how much its score (a logit) exceeds the next one's."""

    token: int
    gap: float


@dataclass
class Log:
    """What an engine did in one call of `generate`, in order: "asked", or the number of rows of a pass."""

    prompt: Prompt | None = None
    arena: Arena | None = None
    made: Generation | None = None
    picks: list[Pick] = field(default_factory=list)
    events: list[str | int] = field(default_factory=list)

    @property
    def passes(self) -> list[int]:
        """Rows of each forward pass."""
        return [event for event in self.events if isinstance(event, int)]


class Watched(Engine):
    """An engine over a given decoder and empty arenas that keeps a log of its last call."""

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer,
        capacity: int = 512,
        arenas: int = 2,
        cache: LocalCache | None = None,
    ) -> None:
        self.log = Log()
        self._watched = decoder
        super().__init__(_Watch(decoder, self), tokenizer, _Pool(decoder.config, capacity, arenas, self), cache)

    def generate(
        self, owner: str, prompt: Prompt, rule: StopRule, limit: int, stopped: Callable[[], bool]
    ) -> Generation:
        """As an engine does."""
        log = self.log = Log(prompt)

        def asked() -> bool:
            log.events.append("asked")
            return stopped()

        log.made = super().generate(owner, prompt, rule, limit, asked)
        return log.made

    def _pick(self, logits: torch.Tensor, history: Ids, stub: bytes) -> int:
        token = super()._pick(logits, history, stub)
        others = logits.clone()
        others[token] = -torch.inf
        runner_up = super()._pick(others, history, stub)
        self.log.picks.append(Pick(token, float(logits[token] - others[runner_up])))
        return token


class _Watch(Decoder):
    def __init__(self, decoder: Decoder, engine: Watched) -> None:
        self.config = decoder.config
        self._decoder, self._engine = decoder, engine

    def forward(self, ids: Ids, arena: Arena) -> torch.Tensor:
        self._engine.log.events.append(len(ids))
        return self._decoder.forward(ids, arena)


class _Pool(ArenaPool):
    def __init__(self, config: ModelConfig, capacity: int, size: int, engine: Watched) -> None:
        super().__init__(config, capacity, size)
        self._engine = engine

    def take(self, owner: str, ids: Ids) -> Arena:
        self._engine.log.arena = arena = super().take(owner, ids)
        return arena


class Scripted(Decoder):
    """A decoder that after a prompt of `start` tokens says the tokens of a script, and token 5 after its end."""

    def __init__(self, config: ModelConfig, start: int, script: Sequence[int]) -> None:
        self.config = config
        self._start, self._script = start, script

    def forward(self, ids: Ids, arena: Arena) -> torch.Tensor:
        """Take the tokens in and say the next one."""
        arena.append(ids)
        said = arena.length - self._start
        logits = torch.zeros(self.config.vocab)
        logits[self._script[said] if 0 <= said < len(self._script) else 5] = 9.0
        return logits


def ids_of(tokens: Sequence[int]) -> Ids:
    """Token ids as an array."""
    return np.array(tokens, dtype=np.int32)
