import functools
import itertools
import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from model_runtime.training import bpe, checkpoint, corpus, evaluate, network, run, samples, spans, trainer
from model_runtime.training.__main__ import main
from model_runtime.training.errors import TrainingError
from model_runtime.training.export import export
from model_runtime.training.report import Reporter, read_log
from model_runtime.training.sources import Source
from model_runtime.training.stream import Batches, ShardSource
from model_runtime.training.trainer import Settings, Trainer

SHAPE = network.Shape(vocabulary=500, width=32, layers=1, heads=2, kv_heads=1, head_dim=16, feed_forward=48)
SETTINGS = Settings(shape=SHAPE, warmup_steps=2, tokens_per_step=256, lengths=((0.0, 64), (0.5, 128)))
STEPS = 12


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of a few files with its tokenizer in the same folder."""
    folder = tmp_path_factory.mktemp("corpus")
    modules = (bpe, corpus, evaluate, network, samples, spans, trainer)
    documents = [corpus.Document(m.__name__, Path(m.__file__ or "").read_text(encoding="utf-8")) for m in modules]
    learnt = Source("learnt", "1.0", "MIT", folder, ())
    held_out = Source("jinja2", "1.0", "BSD-3-Clause", folder, ())
    corpus.write(folder, {learnt: documents[:-1], held_out: documents[-1:]}, [])
    bpe.save(bpe.train((d.text for d in documents), SHAPE.vocabulary), folder)
    return folder


def a_trainer(folder: Path, settings: Settings = SETTINGS) -> Trainer:
    """Each step takes one second by its clock."""
    ticks = itertools.count()
    return Trainer(settings, folder, STEPS, compiled=False, now=lambda: float(next(ticks)))


def train(some: Trainer, source: Path, folder: Path, reporter: type[Reporter] = Reporter) -> None:
    done = some.progress
    batches = Batches(
        ShardSource(source / "train.jsonl", source, characters=10_000), done.shard, done.row, done.length
    )
    try:
        with reporter(folder / "log.jsonl", done.step) as report:
            some.train(batches, report, checkpoint_every=1)
    finally:
        batches.close()


class Interrupted(Reporter):
    def step(self, progress: checkpoint.Progress, loss: float, seconds: float) -> None:
        super().step(progress, loss, seconds)
        if progress.step == STEPS // 2:
            raise KeyboardInterrupt


def test_a_resumed_run_is_the_run_that_was_not_interrupted(gathered: Path, tmp_path: Path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(a_trainer(whole), gathered, whole)
    with pytest.raises(KeyboardInterrupt):
        train(a_trainer(broken), gathered, broken, Interrupted)
    again = a_trainer(broken)
    again.resume()
    assert again.progress.step == STEPS // 2 - 1
    train(again, gathered, broken)

    expected, entries = read_log(whole / "log.jsonl"), read_log(broken / "log.jsonl")
    assert [e["step"] for e in entries] == list(range(1, STEPS + 1))
    assert [e["loss"] for e in entries] == pytest.approx([e["loss"] for e in expected], rel=1e-5)
    assert expected[-1]["loss"] < expected[0]["loss"]
    assert [path.name for path in checkpoint.found(broken)] == ["checkpoint-0000012"]


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path):
    a_trainer(tmp_path).save()
    with pytest.raises(TrainingError, match="another configuration"):
        a_trainer(tmp_path, Settings(shape=SHAPE, rate=1.0)).resume()


def test_there_must_be_a_whole_checkpoint_to_resume(tmp_path: Path):
    with pytest.raises(TrainingError, match="start without --resume"):
        a_trainer(tmp_path).resume()
    (tmp_path / "checkpoint-0000001").mkdir()
    with pytest.raises(TrainingError, match="remove it"):
        a_trainer(tmp_path).resume()


def test_the_export_is_the_model_in_half_precision(gathered: Path, tmp_path: Path):
    model = network.build(SHAPE).eval()
    export(model, bpe.load(gathered), tmp_path)
    loaded = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.arange(7, 207).view(2, 100)
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=2e-3, rtol=1e-2)
        assert network.loss_of(model, ids).item() == pytest.approx(loaded(ids, labels=ids).loss.item(), abs=1e-3)
    assert LlamaForCausalLM.from_pretrained(tmp_path).dtype == torch.float16
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["eos_token_id"], config["pad_token_id"], config["bos_token_id"]) == (0, 4, None)
    assert config["tie_word_embeddings"] and config["architectures"] == ["LlamaForCausalLM"]


def test_padding_is_not_learnt():
    model = network.build(SHAPE)
    ids = torch.arange(7, 39).view(1, 32)
    padded = torch.cat((ids, torch.full((1, 8), bpe.ID[bpe.PAD])), dim=1)
    assert network.loss_of(model, padded).item() == pytest.approx(network.loss_of(model, ids).item(), rel=1e-5)


def test_a_corpus_too_small_for_a_batch_is_refused(gathered: Path):
    batches = Batches(ShardSource(gathered / "train.jsonl", gathered, characters=1_000))
    try:
        with pytest.raises(TrainingError, match="too little text"):
            batches.take(1000, 64)
    finally:
        batches.close()


def test_a_run_ends_with_a_measured_model_and_its_card(
    gathered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(run, "Settings", lambda: SETTINGS)
    monkeypatch.setattr(run.shutil, "which", lambda _name: None)
    monkeypatch.setattr(evaluate, "measure", functools.partial(evaluate.measure, cursors=2, passages=2))
    command = ["run", "--corpus", str(gathered), "--tokenizer", str(gathered), "--out", str(tmp_path / "out")]
    assert main([*command, "--minutes", "0.001"]) == 0
    card = (tmp_path / "out" / "export" / "README.md").read_text()
    assert "| learnt | 1.0 | MIT | 6 |" in card and "(jinja2)" in card
    assert (tmp_path / "out" / "loss.png").stat().st_size > 1000
    assert main([*command, "--minutes", "0.001"]) == 1
    assert "go on with --resume" in capsys.readouterr().err
