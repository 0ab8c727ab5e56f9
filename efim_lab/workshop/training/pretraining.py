"""A whole pretraining run: train, export, fit the n-grams, measure, write the model card."""

import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Tokenizer

from efim_lab.gate import documents, network
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation import report as reports
from efim_lab.gate.evaluation.held_out import measure
from efim_lab.workshop.training import checkpoint, mixture
from efim_lab.workshop.training.card import CardTables, PretrainingSummary, model_card
from efim_lab.workshop.training.corpus import corpus
from efim_lab.workshop.training.corpus.languages import LANGUAGES
from efim_lab.workshop.training.export import export
from efim_lab.workshop.training.loop import device, worth_compiling
from efim_lab.workshop.training.report import plot, read_log
from efim_lab.workshop.training.run.measurement import MeasuringStep, record
from efim_lab.workshop.training.run.other_vocabulary import same_vocabulary
from efim_lab.workshop.training.run.snapshot import copy_history
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.sample_maker import MOST_EXCERPT_TOKENS, Shares
from efim_lab.workshop.training.samples.stream import ShardSource
from efim_lab.workshop.training.trainer import PLANS, Trainer, TrainerSettings
from model_runtime.checkpoint.config import read_languages

_TOKENS_PER_SECOND = 5_000  # of the smaller plan on two cores
_RATE_OF_FINISHED = 1 / 3  # of the plan's: a finished model should learn without first forgetting


@dataclass(frozen=True, slots=True)
class PretrainingJob:
    """What to train, on how many tokens, and on how many held-out `lines` to measure it.

    `start` is another run, or a finished model, to branch off or, with `resume`, a snapshot of this run to continue;
    `beside` are models to compare with in the model card.
    """

    corpus: Path
    tokenizer: Path
    out: Path
    tokens: int
    resume: bool
    start: Path | None
    decay: float
    shares: Shares
    lines: int
    beside: Sequence[Path]


def pretrain(order: PretrainingJob) -> Path:
    """Train on a corpus; return the folder of the finished model."""
    manifest = corpus.read_manifest(order.corpus / corpus.MANIFEST)
    tuning, held_out = (documents.read_documents(order.corpus / f"{part}.jsonl") for part in ("tuning", "heldout"))
    vocabulary = bpe.load(order.tokenizer)
    trainer = _begun(order, _settings(order, vocabulary), vocabulary)
    source = ShardSource(order.corpus / "train.jsonl", order.tokenizer, trainer.settings.seed, shares=order.shares)
    trainer.learn(source, MeasuringStep(trainer, vocabulary, held_out, order.lines) if order.lines else None)
    target = order.out / "export"
    export(
        trainer.model,
        vocabulary,
        target,
        [name for each in manifest.languages for name in LANGUAGES[each].known],
        _room(order),
    )
    plot(order.out / "log.jsonl", target / "loss.png")
    if order.lines:
        mixed = mixture.fit_in_place(target, tuning, order.lines, order.lines // 2)
        named = {"this model": target, **{folder.name: folder for folder in order.beside}}  # cards contain no paths
        measured = [replace(measure(folder, held_out, order.lines), model=name) for name, folder in named.items()]
        record(trainer, measured[0])
        tables = CardTables(reports.table(*measured), mixed, reports.samples(measured[0]))
        card = model_card(_summary(order, trainer), tables, manifest)
        (target / "README.md").write_text(card, encoding="utf-8", newline="\n")
    return target


def _settings(order: PretrainingJob, vocabulary: Tokenizer) -> TrainerSettings:
    plan = PLANS[device().type]
    plan = replace(plan, shares=order.shares, tokens=order.tokens, decay=order.decay)
    entries = vocabulary.get_vocab_size()
    if order.resume and checkpoint.found(order.out):  # it may have started from a finished model
        begun = checkpoint.read_state(checkpoint.newest(order.out))["settings"]
        shape = replace(network.Shape(**begun["shape"]), vocabulary=entries)
        return replace(plan, rate=begun["rate"], seed=begun["seed"], shape=shape)
    if order.start is None or order.resume:
        return replace(plan, shape=replace(plan.shape, vocabulary=entries))
    if checkpoint.is_finished(order.start):
        rate = plan.rate * _RATE_OF_FINISHED if same_vocabulary(bpe.load(order.start), vocabulary) else plan.rate
        seed = zlib.crc32((order.start / checkpoint.WEIGHTS).read_bytes())  # it may have read the rows of another
        shape = replace(network.read_shape(order.start), vocabulary=entries)
        return replace(plan, shape=shape, rate=rate, seed=seed)
    state = checkpoint.read_state(checkpoint.newest(order.start))
    return replace(plan, shape=network.Shape(**state["settings"]["shape"]))


def _begun(order: PretrainingJob, settings: TrainerSettings, vocabulary: Tokenizer) -> Trainer:
    """Return a trainer at the point from which it is to train, with the history of that in its folder."""
    trainer = Trainer(settings, order.out, worth_compiling(order.tokens / _TOKENS_PER_SECOND))
    order.out.mkdir(parents=True, exist_ok=True)
    holds_run = bool(checkpoint.found(order.out))
    if order.resume and (holds_run or not order.start):
        trainer.resume()
    elif holds_run:
        raise WorkError(f"{order.out} holds a run: continue it with --resume or name another folder")
    elif order.start:
        trainer.resume(order.start) if order.resume else trainer.start_from(order.start, vocabulary)
        copy_history(order.start, order.out)  # so that the plot shows the loss from the very start
    if trainer.progress.tokens in trainer.progress.fresh:
        print(
            f"continues at {trainer.progress.tokens / 1e6:.2f}M tokens with fresh optimizer state: "
            f"the learning rate rises over {settings.warmup_tokens / 1e6:g}M tokens"
        )
    shutil.copy(order.corpus / corpus.MANIFEST, order.out)
    return trainer


def _room(order: PretrainingJob) -> int:
    return MOST_EXCERPT_TOKENS if order.shares.repository else 0


def _summary(order: PretrainingJob, trainer: Trainer) -> PretrainingSummary:
    last, progress = [entry["loss"] for entry in read_log(order.out / "log.jsonl")[-100:]], trainer.progress
    earlier = checkpoint.read_state(checkpoint.newest(order.start)) if order.start and progress.branched else None
    return PretrainingSummary(
        architecture=trainer.settings.shape.describe(),
        parameters=sum(p.numel() for p in trainer.model.parameters()),
        vocabulary=trainer.settings.shape.vocabulary,
        context=trainer.settings.shape.context,
        device=trainer.device.type,
        tokens=progress.tokens,
        minutes=(progress.earlier + progress.elapsed) / 60,
        loss=sum(last) / len(last),
        shares=trainer.settings.shares,
        branched=progress.branched,
        earlier_shares=Shares(**earlier["settings"]["shares"]) if earlier else None,
        excerpt_rows=_room(order),
        origin=_origin(order.start),
    )


def _origin(start: Path | None) -> Sequence[str]:
    """Return what the finished model knows that a run began with."""
    return read_languages(start) if start and checkpoint.is_finished(start) else ()
