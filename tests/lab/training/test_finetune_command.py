"""Fine-tuning a tiny model: what is trained, merged, written and resumed is what transformers and peft say it is."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from efim_lab.workshop.training import checkpoint
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.corpus import code_files
from efim_lab.workshop.training.finetune import base
from efim_lab.workshop.training.finetune.tuner import Method, Tuner, TunerSettings
from efim_lab.workshop.training.report import Reporter, read_log
from efim_lab.workshop.training.samples.stream import ShardSource
from model_runtime.checkpoint.config import read_config
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import load
from tests.engine.doubles import decoder_of
from tests.models import CODE, Tiny, make

STEPS = 12
IDS = np.random.default_rng(0).integers(5, 400, 60).astype(np.int32)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run learns from, made of a folder with code."""
    folder = tmp_path_factory.mktemp("code")
    for number in range(4):
        (folder / f"{number}.py").write_text(CODE.replace("record", f"record{number}") * 3)
    code_files.write_code(folder, folder / code_files.CORPUS)
    return folder / code_files.CORPUS


def a_tuner(origin: Path, folder: Path, method: Method = "lora", **settings: float) -> Tuner:
    """Each step takes one second by its clock."""
    ticks = itertools.count()
    wanted = TunerSettings(
        base=str(origin), method=method, rank=4, rate=1e-2, warmup_tokens=512, tokens_per_step=256,
        tokens_at_once=128, lengths=((0.0, 64),),
    )  # fmt: skip
    wanted = replace(wanted, **settings)
    return Tuner(base.find_base(str(origin)), wanted, folder, STEPS, compiled=False, now=lambda: float(next(ticks)))


def trained(tuner: Tuner, corpus: Path) -> Tuner:
    source = ShardSource(corpus, tuner.base.folder, shares=tuner.settings.shares, layout=tuner.base.layout)
    tuner.learn(replace(source, characters=10_000))
    return tuner


@torch.inference_mode()
def logits(model: torch.nn.Module) -> torch.Tensor:
    return model.eval()(torch.from_numpy(IDS).long()[None], use_cache=False).logits[0].float()


def ours(folder: Path) -> torch.Tensor:
    config = read_config(folder)
    return decoder_of(folder).forward(IDS, DenseArena(config, config.context), rows=len(IDS))


@pytest.mark.parametrize(("method", "family"), [("lora", "qwen2"), ("lora", "starcoder2"), ("full", "starcoder2")])
def test_what_is_written_computes_what_was_trained(method: Method, family: str, corpus: Path, tmp_path: Path) -> None:
    origin = make(tmp_path / "base", Tiny(family, head_dim=12, tied=family == "starcoder2"))  # pyright: ignore
    (origin / "local_cache.json").write_text("{}")
    tuner = trained(a_tuner(origin, tmp_path / "run", method), corpus)
    losses = [entry["loss"] for entry in read_log(tmp_path / "run" / "log.jsonl")]
    assert len(losses) == STEPS and sum(losses[-3:]) < sum(losses[:3]) - 0.3

    unmerged, target = logits(tuner.model), tmp_path / "export"
    tuner.export(target)
    torch.testing.assert_close(ours(target), unmerged, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(logits(AutoModelForCausalLM.from_pretrained(target)), unmerged, atol=1e-3, rtol=1e-3)
    assert (unmerged - ours(origin)).abs().max() > 0.1
    for name in ("config.json", "tokenizer.json"):
        assert (target / name).read_bytes() == (origin / name).read_bytes()
    assert not (target / "local_cache.json").exists()  # it was fitted to other weights


def test_the_server_loads_it_in_the_bases_own_number_format(corpus: Path, tmp_path: Path) -> None:
    origin = make(tmp_path / "base", Tiny("qwen2"), half=True)
    config = json.loads((origin / "config.json").read_text())
    (origin / "config.json").write_text(json.dumps(config | {"torch_dtype": "bfloat16"}))
    a_tuner(origin, tmp_path / "run").export(tmp_path / "export")
    assert (tmp_path / "export" / "model.safetensors").stat().st_size < 1.1 * (
        origin / "model.safetensors"
    ).stat().st_size
    loaded = load(
        read_checkpoint(tmp_path / "export"), weights="fp32", threads=1, capacity=64, kv_memory_mib=8,
        ngrams=True, progress=lambda _what, _percent: None,
    )  # fmt: skip
    assert loaded.ngrams is None


def test_adapters_alone_are_trained_and_change_nothing_at_first(tmp_path: Path) -> None:
    origin = make(tmp_path / "base")
    tuner = a_tuner(origin, tmp_path / "run")
    names = {name for name, parameter in tuner.model.named_parameters() if parameter.requires_grad}
    assert names and all("lora_" in name for name in names)
    linears = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert {linear for linear in linears if any(linear in name for name in names)} == set(linears)
    assert not any("lm_head" in name or "embed" in name for name in names)
    torch.testing.assert_close(logits(tuner.model), ours(origin), atol=1e-3, rtol=1e-3)
    tuner.save()
    (kept,) = checkpoint.found(tmp_path / "run")
    assert (kept / "model.safetensors").stat().st_size < (origin / "model.safetensors").stat().st_size / 2


def test_the_attention_is_not_the_bases_to_choose(tmp_path: Path) -> None:
    origin = make(tmp_path / "base")
    raw = json.loads((origin / "config.json").read_text())
    for asked in ("flash_attention_2", "kernels-community/flash-attn2"):
        (origin / "config.json").write_text(json.dumps(raw | {"attn_implementation": asked}))
        torch.testing.assert_close(logits(a_tuner(origin, tmp_path).model), ours(origin), atol=1e-3, rtol=1e-3)


class Interrupted(Reporter):
    def step(self, progress: checkpoint.RunProgress, loss: float, share: float) -> None:
        super().step(progress, loss, share)
        if progress.step == STEPS // 2:
            raise KeyboardInterrupt


def test_a_resumed_run_is_the_run_that_was_not_interrupted(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, whole, broken = make(tmp_path / "base"), tmp_path / "whole", tmp_path / "broken"
    trained(a_tuner(origin, whole), corpus)
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patched:
        patched.setattr("efim_lab.workshop.training.loop.Reporter", Interrupted)
        trained(a_tuner(origin, broken), corpus)
    again = a_tuner(origin, broken)
    again.resume()
    assert again.progress.step == STEPS // 2 - 2
    trained(again, corpus)

    expected, entries = read_log(whole / "log.jsonl"), read_log(broken / "log.jsonl")
    assert [e["step"] for e in entries] == list(range(1, STEPS + 1))
    assert [e["loss"] for e in entries] == pytest.approx([e["loss"] for e in expected], rel=1e-4)


def test_passes_of_any_size_make_the_same_step(corpus: Path, tmp_path: Path) -> None:
    origin, losses = make(tmp_path / "base"), []
    for at_once in (64, 256):
        folder = tmp_path / str(at_once)
        trained(a_tuner(origin, folder, tokens_at_once=at_once), corpus)
        losses.append([entry["loss"] for entry in read_log(folder / "log.jsonl")])
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_the_command_from_a_folder_with_code_to_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    origin, code, out = make(tmp_path / "tiny"), tmp_path / "code", tmp_path / "run"
    (origin / "README.md").write_text("---\nlanguage: code\nlicense: mit\n---\n# Tiny\n")
    code.mkdir()
    (code / "a.py").write_text(CODE)
    (code / "b.ts").write_text(CODE.replace("def", "function").replace("records", "entries") * 40)
    begun = ["--method", "lora", "--base", str(origin), "--out", str(out), "--minutes"]
    order = ["--data", str(code), *begun, "0.03"]
    assert main(order) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out / "export")
    card = (out / "export" / "README.md").read_text()
    assert "base_model: tiny\nlicense: mit\n" in card and "2 files of code" in card and "LoRA of rank 16" in card
    assert str(tmp_path) not in card
    assert (out / "export" / "loss.png").read_bytes().startswith(b"\x89PNG")

    assert main(order) == 1
    assert "holds a run: continue it with --resume" in capsys.readouterr().err
    shutil.rmtree(code)  # what a run learns from is kept beside it
    assert main([*begun, "0.05", "--resume"]) == 0
    steps = [entry["step"] for entry in read_log(out / "log.jsonl")]
    assert steps == list(range(1, len(steps) + 1))
    assert main([*order, "--resume", "--rank", "8"]) == 1
    assert "another configuration (rank)" in capsys.readouterr().err
    other = shutil.copytree(origin, tmp_path / "other")
    assert main(["--method", "lora", "--base", str(other), "--out", str(out), "--resume"]) == 1
    assert "another configuration (base)" in capsys.readouterr().err
