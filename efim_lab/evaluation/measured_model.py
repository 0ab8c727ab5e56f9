"""A loaded model as it is measured: through the server's own engine, greedily, with nothing kept between models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import Path

import numpy as np
import numpy.typing as npt

from efim_lab.errors import WorkError
from efim_lab.evaluation.arms import Arm, Chooser
from efim_lab.evaluation.places.cursors import Context
from model_runtime.arena.pool import Owner
from model_runtime.decoder.linear import packed_format
from model_runtime.engine.engine import Engine, Generation
from model_runtime.engine.ngram_cache import LocalCache
from model_runtime.engine.stops import StopRule
from model_runtime.ids import Ids
from model_runtime.loading.checkpoint import read_checkpoint
from model_runtime.loading.load import load
from model_runtime.prompt.prompt import Prompt

CAPACITY = 2048  # tokens of a prompt and what follows it, where the model's context allows them
KV_MEMORY_MIB = 1  # one owner has one arena, and one there always is
MEASURED_OWNER = Owner("")
LEAST_PROBABILITY = 1e-38  # of fp32; less would be infinitely many bits


class UntilEnd(StopRule):
    """Ends nothing: only the model's end token or the limit does."""

    def cut(self, text: str) -> int | None:
        """Let the text go on."""
        return None


LINE = StopRule(multiline=False, indent=0, max_lines=1)
UNTIL_END = UntilEnd(multiline=True, indent=0, max_lines=0)


@dataclass(frozen=True)
class Teacher(LocalCache):
    """Stands where the local cache does: reads the model's distribution and lets the given token pass alone.

    Each serves once: what an engine remembers of another one's choices it must not repeat unread.
    """

    middle: list[int] = field(default_factory=list[int])
    bits: list[float] = field(default_factory=list[float])

    def mix(self, probabilities: npt.NDArray[np.float32], history: Ids) -> npt.NDArray[np.float32]:
        """Note the bits of the next given token [vocab] and make it certain."""
        token = self.middle[len(self.bits)]
        self.bits.append(-log2(max(float(probabilities[token]), LEAST_PROBABILITY)))
        certain = np.zeros_like(probabilities)
        certain[token] = 1.0
        return certain


class MeasuredModel:
    """A model, and an engine for each way to choose tokens; all share one arena."""

    def __init__(self, folder: Path) -> None:
        """Load a checkpoint folder; ModelError names what is wrong with it."""
        self._model = model = load(
            read_checkpoint(folder),
            weights=packed_format(),
            threads=1,
            capacity=CAPACITY,
            kv_memory_mib=KV_MEMORY_MIB,
            local_cache=True,
            measured=None,
            progress=_silent,
        )
        self._engines: dict[Chooser, Engine] = {"model": model.engine.mixing(None), "mixture": model.engine}
        if model.local_cache is not None:
            self._engines["counts"] = model.engine.mixing(model.local_cache.alone())

    def can(self, arm: Arm) -> bool:
        """Whether the model can be asked so: without a local cache of its own there are no counts."""
        return arm.chooser in self._engines

    def prompts(self, context: Context, arms: Sequence[Arm], room: int) -> list[Prompt]:
        """Build a prompt for each arm, all with as many of the head's last lines as leave `room` tokens to each."""
        while True:
            built = [arm.prompt(self._model.tokenizer, self._model.template, context) for arm in arms]
            if max(len(prompt.ids) for prompt in built) + room <= self._model.engine.capacity:
                return built
            if not context.head:
                size = self._model.engine.capacity
                raise WorkError(f"a context of {size} tokens is too short: use a model with a longer one")
            context = replace(context, head=_shortened(context.head))

    def generate(self, arm: Arm, prompt: Prompt, rule: StopRule, limit: int) -> Generation:
        """Complete by at most `limit` tokens."""
        return self._engines[arm.chooser].generate(MEASURED_OWNER, prompt, rule, limit, _never)

    def complete(self, arm: Arm, prompt: Prompt, rule: StopRule, limit: int) -> str:
        """The text alone."""
        return self.generate(arm, prompt, rule, limit).text

    def encode(self, text: str) -> Ids:
        """Token ids of a text."""
        return self._model.tokenizer.encode(text)

    def bits(self, prompt: Prompt, middle: Ids) -> float:
        """Bits that the model needs for `middle` [n] after a prompt that is not healed, teacher-forced."""
        teacher = Teacher((), 1.0, middle.tolist())
        self._model.engine.mixing(teacher).generate(MEASURED_OWNER, prompt, UNTIL_END, len(middle), _never)
        return sum(teacher.bits)


def _shortened(head: str) -> str:
    lines = head.split("\n")
    return "\n".join(lines[len(lines) // 8 + 1 :])


def _never() -> bool:
    return False


def _silent(_phase: str, _percent: int) -> None:
    """Loading is not reported."""
