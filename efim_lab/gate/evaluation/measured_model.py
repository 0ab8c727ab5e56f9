"""A loaded model to measure: through the server's own engine, greedily, with nothing shared between models.

What the server itself suggests is measured through its completer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2
from pathlib import Path

import numpy as np
import numpy.typing as npt

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.arms import Arm, Chooser
from efim_lab.gate.evaluation.places.cursors import Context
from efim_lab.gate.package_counts import PackageCounts
from efim_ls.completion.completer import Completer
from efim_ls.languages.table import known_as
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.counts.snapshot import CountsView
from model_runtime.decoder.linear import packed_format
from model_runtime.engine.engine import GenerateJob, Generation
from model_runtime.engine.local import EngineParts, LocalEngine
from model_runtime.engine.native.mixer import NativeMixer
from model_runtime.engine.ngrams import Mixture, Ngrams
from model_runtime.engine.stops import StopRule
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId
from model_runtime.loading.checkpoint_reader import read_checkpoint, read_tokenizer
from model_runtime.loading.load import load
from model_runtime.prompt.prompt import Prompt

CAPACITY = 2048  # tokens of a prompt and its completion, if the model's context allows
KV_MEMORY_MIB = 1  # the least: one owner needs one arena, which always exists
MEASURED_OWNER = FrameId("")
LEAST_PROBABILITY = 1e-38  # of fp32; keeps bits finite


class UntilEnd(StopRule):
    """Never stops: only the model's end token or the limit ends a completion."""

    def cut(self, text: str) -> int | None:
        """Return None: no cut."""
        return None


LINE = StopRule(multiline=False, indent=0, max_lines=1)
UNTIL_END = UntilEnd(multiline=True, indent=0, max_lines=0)


@dataclass(frozen=True)
class Teacher(Ngrams):
    """A stand-in for the n-grams that notes the model's distribution and forces the given tokens.

    Use each instance once: an engine repeats remembered choices without reading the distribution again.
    """

    middle: list[int] = field(default_factory=list[int])
    bits: list[float] = field(default_factory=list[float])

    @cached_property
    def mixer(self) -> NativeMixer | None:
        """None: the compiled part mixes counts in."""
        return None

    def mixture(
        self, probabilities: npt.NDArray[np.float32], history: Ids, counts: CountsView | None = None
    ) -> Mixture:
        """Note the bits of the next given token and return a distribution [vocab] that makes it certain."""
        token = self.middle[len(self.bits)]
        self.bits.append(-log2(max(float(probabilities[token]), LEAST_PROBABILITY)))
        certain = np.zeros_like(probabilities)
        certain[token] = 1.0
        return Mixture(certain)


class MeasuredModel:
    """A model, and an engine for each way to choose tokens; all share one arena."""

    def __init__(self, folder: Path) -> None:
        """Load a checkpoint folder; raises ModelError."""
        self._model = model = load(
            read_checkpoint(folder),
            weights=packed_format(),
            threads=1,
            capacity=CAPACITY,
            kv_memory_mib=KV_MEMORY_MIB,
            ngrams=True,
            progress=_silent,
        )
        parts: dict[Chooser, EngineParts] = {"model": model.parts.with_ngrams(None), "mixture": model.parts}
        if model.ngrams is not None:
            parts["counts"] = model.parts.with_ngrams(model.ngrams.without_model())
        self._engines = {chooser: LocalEngine(each) for chooser, each in parts.items()}

    def can(self, arm: Arm) -> bool:
        """Return whether the model can be measured so: without n-grams there are no counts."""
        return arm.chooser in self._engines

    def prompts(self, context: Context, arms: Sequence[Arm], room: int) -> list[Prompt]:
        """Build a prompt for each arm, shortening the common head until every prompt leaves `room` tokens."""
        template = self._model.template.of(known_as(context.language))
        while True:
            built = [arm.prompt(self._model.tokenizer, template, context) for arm in arms]
            if max(len(prompt.ids) for prompt in built) + room <= self._model.parts.capacity:
                return built
            if not context.head:
                size = self._model.parts.capacity
                raise WorkError(f"a context of {size} tokens is too short: use a model with a longer one")
            context = replace(context, head=_shortened(context.head))

    def generate(self, arm: Arm, prompt: Prompt, rule: StopRule, limit: int) -> Generation:
        """Generate at most `limit` tokens."""
        return self._engines[arm.chooser].generate(GenerateJob(MEASURED_OWNER, prompt, rule, limit), NEVER)

    def complete(self, arm: Arm, prompt: Prompt, rule: StopRule, limit: int) -> str:
        """Generate at most `limit` tokens and return the text alone."""
        return self.generate(arm, prompt, rule, limit).text

    def encode(self, text: str) -> Ids:
        """Encode a text."""
        return self._model.tokenizer.encode(text)

    def bits(self, prompt: Prompt, middle: Ids) -> float:
        """Return the bits the model needs for `middle` [n] after an unhealed prompt, teacher-forced."""
        teacher = Teacher((), 1.0, middle=middle.tolist())
        engine = LocalEngine(self._model.parts.with_ngrams(teacher))
        engine.generate(GenerateJob(MEASURED_OWNER, prompt, UNTIL_END, len(middle)), NEVER)
        return sum(teacher.bits)


def load_completer(folder: Path, documents: Sequence[CodeDocument]) -> tuple[Completer, PackageCounts]:
    """Load the server with the model in `folder`, and counts of the documents' packages; raises ModelError."""
    # The fastest format, the default, is another on a busy machine.
    settings = Settings(model="" if folder == EMBEDDED else str(folder), persist=False, weights=packed_format())
    completer = Completer.load(settings, _silent)
    return completer, PackageCounts(read_tokenizer(folder, read_config(folder)), documents)


def _shortened(head: str) -> str:
    lines = head.split("\n")
    return "\n".join(lines[len(lines) // 8 + 1 :])


def _silent(_phase: str, _percent: int) -> None:
    """Report no progress."""
