"""Fine-tunes an existing model to complete inside words, with EFIM's fragments in its own template."""

from dataclasses import dataclass
from pathlib import Path

from efim_lab.gate import documents
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training import checkpoint
from efim_lab.workshop.training.corpus import code_files
from efim_lab.workshop.training.finetune import base, tuned_card
from efim_lab.workshop.training.finetune.base import BaseModel
from efim_lab.workshop.training.finetune.tuned_card import FinetuningSummary
from efim_lab.workshop.training.finetune.tuner import RATES, Method, Tuner, TunerSettings
from efim_lab.workshop.training.loop import device, worth_compiling
from efim_lab.workshop.training.report import plot, read_log
from efim_lab.workshop.training.samples.stream import ShardSource
from model_runtime.loading.checkpoint_reader import TemplateOverride


@dataclass(frozen=True, slots=True)
class FinetuningJob:
    """What to fine-tune, on what data, how and for how long; without `rate`, it follows from the model's width."""

    base: str
    revision: str
    template: TemplateOverride
    method: Method
    data: Path
    out: Path
    seconds: float
    resume: bool
    rank: int
    rate: float | None


def finetune(order: FinetuningJob) -> Path:
    """Fine-tune a model; return the folder of the finished model."""
    found = base.find_base(order.base, order.revision, order.template)
    corpus = _corpus(order)
    settings = _settings(order, found)
    tuner = Tuner(found, settings, order.out, order.seconds, worth_compiling(order.seconds))
    if order.resume:
        tuner.resume()
    tuner.learn(ShardSource(corpus, found.folder, settings.seed, shares=settings.shares, layout=found.layout))
    return _finished(order, tuner, corpus)


def _settings(order: FinetuningJob, found: BaseModel) -> TunerSettings:
    """Choose the schedule: larger steps on a GPU, no row longer than the base's context.

    All rows have one length, because compiling for a second one would take a large part of a short run.
    """
    is_gpu = device().type == "cuda"
    tokens_per_step = 32768 if is_gpu else 2048
    return TunerSettings(
        base=str(found.folder.resolve()),
        template=order.template,
        method=order.method,
        rank=order.rank,
        rate=order.rate or RATES[order.method] / found.hidden,
        warmup_tokens=20 * tokens_per_step,
        tokens_per_step=tokens_per_step,
        tokens_at_once=8192 if is_gpu else 2048,
        lengths=((0.0, min(2048 if is_gpu else 1024, found.context)),),
    )


def _corpus(order: FinetuningJob) -> Path:
    """Return the run's copy of its data, which is written at the start and read again on --resume."""
    corpus = order.out / code_files.CORPUS
    if order.resume:
        return corpus
    if checkpoint.found(order.out):
        raise WorkError(f"{order.out} holds a run: continue it with --resume or name another folder")
    try:
        order.out.mkdir(parents=True, exist_ok=True)
        code_files.write_code(order.data, corpus)
    except OSError as error:
        raise WorkError(f"cannot write to {order.out} ({error}): make room there, or name another folder") from error
    return corpus


def _finished(order: FinetuningJob, tuner: Tuner, corpus: Path) -> Path:
    target, log = order.out / "export", order.out / "log.jsonl"
    card = tuned_card.card(_summary(order, tuner, corpus))
    try:
        tuner.export(target)
        plot(log, target / "loss.png")
        (target / "README.md").write_text(card, encoding="utf-8", newline="\n")
    except (OSError, RuntimeError) as error:  # safetensors raises RuntimeError when the disk is full
        raise WorkError(f"cannot write {target} ({error}): make room and --resume") from error
    return target


def _summary(order: FinetuningJob, tuner: Tuner, corpus: Path) -> FinetuningSummary:
    losses = [entry["loss"] for entry in read_log(order.out / "log.jsonl")]
    some = min(100, len(losses))
    learnt = documents.read_documents(corpus)
    return FinetuningSummary(
        base=tuner.base.name,
        licence=tuner.base.licence,
        settings=tuner.settings,
        device=tuner.device.type,
        files=len(learnt),
        characters=sum(len(document.text) for document in learnt),
        tokens=tuner.progress.tokens,
        minutes=tuner.progress.elapsed / 60,
        losses=(sum(losses[:some]) / some, sum(losses[-some:]) / some),
    )
