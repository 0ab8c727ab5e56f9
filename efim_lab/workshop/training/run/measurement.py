"""Measures a run on held-out lines while it trains, and keeps the figures next to its checkpoints."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import Tokenizer

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.arms import SERVER
from efim_lab.gate.evaluation.held_out import measure
from efim_lab.gate.evaluation.report import HeldOutReport
from efim_lab.workshop.training.export import export
from efim_lab.workshop.training.report import read_log
from efim_lab.workshop.training.run.clock import StopRequest
from efim_lab.workshop.training.trainer import Trainer
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.engine.ngrams import NGRAMS_FILE

MEASUREMENTS = "measurements.jsonl"
MEASURE_EVERY = 25_000_000  # tokens


@dataclass(frozen=True, slots=True)
class Measurement:
    """The server's figures after `tokens` tokens; `rate` is the share of the highest learning rate at that point."""

    tokens: int
    rate: float
    lines: int
    exact: float
    word: float
    similarity: float


def record(trainer: Trainer, report: HeldOutReport) -> None:
    """Append a report's figures to the measurements of the run."""
    figures, settings = report.arms[SERVER.name], trainer.settings
    found = Measurement(
        tokens=trainer.progress.tokens,
        rate=round(settings.rate_at(trainer.progress, trainer.share()) / settings.rate, 4),
        lines=report.lines,
        exact=figures.exact.value,
        word=figures.first_word.value,
        similarity=figures.similarity.value,
    )
    with (trainer.folder / MEASUREMENTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(found)) + "\n")


def read_measurements(folder: Path) -> list[Measurement]:
    """Read the measurements of a run or a snapshot, oldest first."""
    path = folder / MEASUREMENTS
    return [Measurement(**entry) for entry in read_log(path)] if path.exists() else []  # pyright: ignore


class MeasuringStep:
    """Measures the model after every 25 million tokens; the embedded model's n-grams stand in for its own."""

    def __init__(self, trainer: Trainer, tokenizer: Tokenizer, held_out: Sequence[CodeDocument], lines: int) -> None:
        self._trainer, self._tokenizer, self._held_out, self._lines = trainer, tokenizer, held_out, lines
        measured = [each.tokens for each in read_measurements(trainer.folder)]
        self._measured = max(measured, default=trainer.progress.branched)

    def __call__(self, stop: StopRequest) -> None:
        """Measure if it is due, after a checkpoint; a signal interrupts it, and it is due again on resume."""
        tokens = self._trainer.progress.tokens
        if tokens // MEASURE_EVERY <= self._measured // MEASURE_EVERY or self._trainer.share() >= 1.0:
            return
        self._trainer.save()
        threads = torch.get_num_threads()
        try:
            record(self._trainer, self._measure(stop))
        finally:
            torch.set_num_threads(threads)  # loading a model to measure sets one
        self._measured = tokens

    def _measure(self, stop: StopRequest) -> HeldOutReport:
        with TemporaryDirectory() as name:
            folder = Path(name)
            export(self._trainer.model, self._tokenizer, folder)
            shutil.copy(EMBEDDED / NGRAMS_FILE, folder)
            return measure(folder, self._held_out, self._lines, lambda _what, _done, _all: stop.check())
