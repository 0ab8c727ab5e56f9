"""A whole pretraining run: train, export, fit the local cache, measure, write the model card."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from efim_lab import documents
from efim_lab.errors import WorkError
from efim_lab.evaluation import report as reports
from efim_lab.evaluation.held_out import measure
from efim_lab.training import checkpoint, mixture
from efim_lab.training.card import CardTables, PretrainingSummary, model_card
from efim_lab.training.corpus import corpus
from efim_lab.training.export import export
from efim_lab.training.loop import device, worth_compiling
from efim_lab.training.report import plot, read_log
from efim_lab.training.samples import bpe
from efim_lab.training.samples.sample_maker import Shares
from efim_lab.training.samples.stream import ShardSource
from efim_lab.training.trainer import PLANS, Trainer, TrainerSettings


@dataclass(frozen=True, slots=True)
class PretrainingJob:
    """What to train, for how long, and on how many held-out `lines` to measure it.

    `start` is another run to start from; `beside` are models to compare with in the model card.
    """

    corpus: Path
    tokenizer: Path
    out: Path
    seconds: float
    resume: bool
    start: Path | None
    decay: float
    shares: Shares
    lines: int
    beside: Sequence[Path]


def pretrain(order: PretrainingJob) -> Path:
    """Train on a corpus; return the folder of the finished model."""
    entries = corpus.read_manifest(order.corpus / "manifest.json")
    tuning, held_out = (documents.read_documents(order.corpus / f"{part}.jsonl") for part in ("tuning", "heldout"))
    vocabulary = bpe.load(order.tokenizer)
    trainer = _trained(order, _settings(order, vocabulary.get_vocab_size()))
    target = order.out / "export"
    export(trainer.model, vocabulary, target)
    plot(order.out / "log.jsonl", target / "loss.png")
    if order.lines:
        mixed = mixture.fit_in_place(target, tuning, order.lines, order.lines // 2)
        named = {"this model": target, **{folder.name: folder for folder in order.beside}}  # cards contain no paths
        measured = [replace(measure(folder, held_out, order.lines), model=name) for name, folder in named.items()]
        tables = CardTables(reports.table(*measured), mixed, reports.samples(measured[0]))
        card = model_card(_summary(trainer, order.out / "log.jsonl"), tables, entries)
        (target / "README.md").write_text(card, encoding="utf-8", newline="\n")
    return target


def _settings(order: PretrainingJob, vocabulary: int) -> TrainerSettings:
    plan = PLANS[device().type]
    shape = replace(plan.shape, vocabulary=vocabulary)
    return replace(plan, shape=shape, shares=order.shares, decay=order.decay)


def _trained(order: PretrainingJob, settings: TrainerSettings) -> Trainer:
    trainer = Trainer(settings, order.out, order.seconds, worth_compiling(order.seconds))
    order.out.mkdir(parents=True, exist_ok=True)
    if order.resume:
        trainer.resume()
    elif checkpoint.found(order.out):
        raise WorkError(f"{order.out} holds a run: continue it with --resume or name another folder")
    elif order.start:
        trainer.start_from(order.start)
        shutil.copy(order.start / "log.jsonl", order.out)  # so that the plot shows the loss from the very start
    trainer.learn(ShardSource(order.corpus / "train.jsonl", order.tokenizer, shares=order.shares))
    return trainer


def _summary(trainer: Trainer, log: Path) -> PretrainingSummary:
    last, progress = [entry["loss"] for entry in read_log(log)[-100:]], trainer.progress
    return PretrainingSummary(
        parameters=sum(p.numel() for p in trainer.model.parameters()),
        vocabulary=trainer.settings.shape.vocabulary,
        context=trainer.settings.shape.context,
        device=trainer.device.type,
        tokens=progress.tokens,
        minutes=(progress.earlier + progress.elapsed) / 60,
        loss=sum(last) / len(last),
        shares=trainer.settings.shares,
    )
