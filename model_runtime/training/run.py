"""A whole training run: train, export, measure, write the model card."""

import shutil
from pathlib import Path

from model_runtime.training import bpe, checkpoint, corpus, evaluate
from model_runtime.training.card import Training, model_card
from model_runtime.training.errors import TrainingError
from model_runtime.training.export import export
from model_runtime.training.report import Reporter, plot, read_log
from model_runtime.training.stream import Batches, ShardSource
from model_runtime.training.trainer import Settings, Trainer


def run(gathered: Path, tokenizer: Path, folder: Path, seconds: float, resumed: bool) -> Path:
    """Train on what `corpus` wrote to `gathered` for `seconds`; return the folder with the finished model."""
    entries = corpus.read_manifest(gathered / "manifest.json")
    held_out = corpus.read(gathered / "heldout.jsonl")
    vocabulary = bpe.load(tokenizer)
    trainer = _trained(ShardSource(gathered / "train.jsonl", tokenizer), folder, seconds, resumed)
    target = folder / "export"
    export(trainer.model, vocabulary, target)
    plot(folder / "log.jsonl", folder / "loss.png")
    figures = evaluate.measure(target, held_out)
    card = model_card(_summary(trainer, folder / "log.jsonl"), figures, entries)
    (target / "README.md").write_text(card, encoding="utf-8", newline="\n")
    return target


def _trained(source: ShardSource, folder: Path, seconds: float, resumed: bool) -> Trainer:
    trainer = Trainer(Settings(), folder, seconds, compiled=shutil.which("cc") is not None)
    if resumed:
        trainer.resume()
    elif checkpoint.found(folder):
        raise TrainingError(f"{folder} holds a run: go on with --resume or name another folder")
    done = trainer.progress
    batches = Batches(source, done.shard, done.row, done.length)
    try:
        with Reporter(folder / "log.jsonl", done.step) as reporter:
            trainer.train(batches, reporter)
    finally:
        batches.close()
    return trainer


def _summary(trainer: Trainer, log: Path) -> Training:
    last = [entry["loss"] for entry in read_log(log)[-100:]]
    progress = trainer.progress
    parameters = sum(p.numel() for p in trainer.model.parameters())
    return Training(parameters, progress.tokens, progress.elapsed / 60, sum(last) / len(last))
