import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from efim_lab.gate import network
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training import checkpoint, objective, pretraining
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.export import export
from efim_lab.workshop.training.report import Reporter, read_log
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.packing import PADDING
from efim_lab.workshop.training.samples.stream import Batches, ShardSource
from efim_lab.workshop.training.trainer import TrainerSettings
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.decoder import Decoder
from model_runtime.engine import ngrams as ngrams
from model_runtime.kv.arena import DenseArena
from tests.lab.training_run.tiny_run import SETTINGS, SHAPE, STEP, STEPS, Interrupted, a_trainer, train


def test_a_resumed_run_is_the_run_that_was_not_interrupted(gathered: Path, tmp_path: Path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(a_trainer(whole), gathered, whole)
    with pytest.raises(KeyboardInterrupt):
        train(a_trainer(broken), gathered, broken, Interrupted)
    again = a_trainer(broken)
    again.resume()
    assert again.progress.step == STEPS // 2 - 2
    train(again, gathered, broken)

    expected, entries = read_log(whole / "log.jsonl"), read_log(broken / "log.jsonl")
    assert [e["step"] for e in entries] == list(range(1, STEPS + 1))
    assert [e["loss"] for e in entries] == pytest.approx([e["loss"] for e in expected], rel=1e-5)
    assert expected[-1]["loss"] < expected[0]["loss"]
    assert [path.name for path in checkpoint.found(broken)] == ["checkpoint-0000012"]


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path):
    a_trainer(tmp_path).save()
    with pytest.raises(WorkError, match="another configuration .*rate"):
        a_trainer(tmp_path, TrainerSettings(shape=SHAPE, rate=1.0)).resume()


def test_a_run_branches_off_another_with_the_next_data_and_its_own_budget(gathered: Path, tmp_path: Path):
    trunk = a_trainer(tmp_path / "trunk", replace(SETTINGS, decay=0.0))
    train(trunk, gathered, tmp_path / "trunk")
    branch = a_trainer(tmp_path / "branch")
    branch.start_from(tmp_path / "trunk", bpe.load(gathered))
    tokens = STEPS * STEP
    assert branch.progress == checkpoint.RunProgress(
        step=STEPS, tokens=tokens, earlier=STEPS, branched=tokens, shard=trunk.progress.shard + 1, length=128
    )
    torch.testing.assert_close(branch.model.state_dict(), trunk.model.state_dict())
    for ours, theirs in zip(branch.state().optimizers, trunk.state().optimizers, strict=True):
        torch.testing.assert_close(ours.state_dict()["state"], theirs.state_dict()["state"])
    assert branch._rate() == SETTINGS.rate  # without a second warm-up
    train(branch, gathered, tmp_path / "branch")
    assert [entry["step"] for entry in read_log(tmp_path / "branch" / "log.jsonl")] == list(range(13, 25))
    assert branch.progress.tokens == 2 * trunk.progress.tokens and branch._rate() == 0


def test_a_damaged_checkpoint_is_named(tmp_path: Path):
    some = a_trainer(tmp_path)
    some.save()
    (newest,) = checkpoint.found(tmp_path)
    for name in ("model.safetensors", "optimizers.pt", "run.json"):
        whole = (newest / name).read_bytes()
        (newest / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(WorkError, match="damaged.*remove it and resume"):
            a_trainer(tmp_path).resume()
        (newest / name).write_bytes(whole)
    a_trainer(tmp_path).resume()


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    some = a_trainer(tmp_path)
    some.save()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint.torch, "save", full)
    some.progress.step = 9
    with pytest.raises(WorkError, match="No space left on device.*make room and --resume; checkpoint-0000000"):
        some.save()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-0000000"]
    again = a_trainer(tmp_path)
    again.resume()
    assert again.progress.step == 0


def test_a_log_that_a_killed_run_left_is_cut_to_its_checkpoint(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    Reporter(log, 2).__exit__(None, None, None)
    assert read_log(log) == [{"step": 1}, {"step": 2}]


def test_there_must_be_a_whole_checkpoint_to_resume(tmp_path: Path):
    with pytest.raises(WorkError, match="start without --resume"):
        a_trainer(tmp_path).resume()
    (tmp_path / "checkpoint-0000001").mkdir()
    with pytest.raises(WorkError, match="remove it and resume"):
        a_trainer(tmp_path).resume()


def test_a_model_with_all_parts_is_exported_with_their_names(gathered: Path, tmp_path: Path):
    parts = dict.fromkeys(("head_norms", "head_gates", "token_values"), True)
    shape = replace(SHAPE, **parts, zero_outputs=True, layers=2)
    model = network.build(shape).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    export(model, bpe.load(gathered), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "efim" and all(config[part] is True for part in parts)
    assert network.read_shape(tmp_path) == replace(shape, zero_outputs=False)  # which only says how a run begins
    read, ids = read_config(tmp_path), torch.arange(7, 107)
    decoder = Decoder(read, read_weights(tmp_path, read), "fp32")
    with torch.no_grad():
        found = decoder.forward(ids.numpy().astype(np.int32), DenseArena(read, 100), 100)
        torch.testing.assert_close(found, model(ids[None]).logits[0], atol=2e-2, rtol=2e-2)


def test_outputs_gates_and_tables_may_begin_at_zero():
    begun = network.build(replace(network.EMBEDDED_SHAPE, vocabulary=500, layers=1))
    zero = {name for name, parameter in begun.named_parameters() if not parameter.any()}
    assert zero == {
        "model.token_values.weight", "model.layers.0.self_attn.head_gates.weight",
        "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight",
    }  # fmt: skip


def test_the_export_is_the_model_in_half_precision(gathered: Path, tmp_path: Path):
    model = network.build(SHAPE).eval()
    export(model, bpe.load(gathered), tmp_path, ["python"])
    loaded = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.arange(7, 207).view(2, 100)
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=2e-3, rtol=1e-2)
        assert objective.loss_of(model, ids).item() == pytest.approx(loaded(ids, labels=ids).loss.item(), abs=1e-3)
    assert LlamaForCausalLM.from_pretrained(tmp_path).dtype == torch.float16
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["eos_token_id"], config["pad_token_id"], config["bos_token_id"]) == (0, 4, None)
    assert config["tie_word_embeddings"] and config["architectures"] == ["LlamaForCausalLM"]
    assert config["programming_languages"] == ["python"]


def test_padding_is_not_learnt():
    model = network.build(SHAPE)
    ids = torch.arange(7, 39).view(1, 32)
    padded = torch.cat((ids, torch.full((1, 8), PADDING)), dim=1)
    assert objective.loss_of(model, padded).item() == pytest.approx(objective.loss_of(model, ids).item(), rel=1e-5)


def test_a_corpus_too_small_for_a_batch_is_refused(gathered: Path):
    batches = Batches(ShardSource(gathered / "train.jsonl", gathered, characters=1_000))
    try:
        with pytest.raises(WorkError, match="too little text"):
            batches.take(1000, 64)
    finally:
        batches.close()


def test_a_run_ends_with_a_measured_model_and_its_card(
    gathered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(pretraining, "PLANS", {"cpu": SETTINGS, "cuda": SETTINGS})
    command = ["run", "--corpus", str(gathered), "--tokenizer", str(gathered), "--tokens", "0.002", "--lines", "6"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert main([*command, "--out", str(first)]) == 0
    assert main([*command, "--out", str(first)]) == 1
    assert "continue it with --resume" in capsys.readouterr().err
    others = [
        "--from",
        str(first),
        "--beside",
        str(first / "export"),
        "--shares",
        "without-fragments",
        "--decay",
        "0.5",
    ]
    assert main([*command, "--out", str(second), *others]) == 0

    export = second / "export"
    card = (export / "README.md").read_text()
    assert "| learnt | 1.0 | MIT | 5 |" in card and "(jinja2)" in card and "(click)" in card
    assert (
        "25% plain text, 35% infilling in the usual order, 40% this server's prompts (0% of them not healed)" in card
    )
    assert card.index("The mixture of the first 0.0 million tokens: 20% plain text") < card.index(
        "The mixture of the last 0.0"
    )
    assert "excerpts of other files may stand" not in card  # it was not trained to read any
    assert "server, this model" in card and "server, export" in card and str(tmp_path) not in card
    assert (export / "loss.png").stat().st_size > 1000
    assert read_log(second / "log.jsonl")[0]["step"] == 1
    assert ngrams.read_ngrams(export) is not None


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["run", "--shares", "plain=x"], "expected KIND=SHARE"),
        (["run", "--shares", "prose=1"], "expected KIND=SHARE"),
        (["tokenizer", "--size", "10"], "from 512 to 65536"),
    ],
)
def test_mistakes_are_told(argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert complaint in capsys.readouterr().err
