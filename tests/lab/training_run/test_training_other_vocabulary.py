"""A run that begins with the weights of a finished model whose tokenizer is another."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from efim_lab.gate import network
from efim_lab.workshop.training import checkpoint, pretraining
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.export import export
from efim_lab.workshop.training.samples import bpe
from tests.lab.training_run.tiny_run import SETTINGS, SHAPE, STEP, a_trainer

OLD, NEW = 300, 340
TEXTS = ("function add(first, second) {\n  return first + second;\n}\n", "const added = add(first, second);\n") * 9


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Path, network.EfimForCausalLM, Tokenizer]:
    torch.manual_seed(1)
    shape = replace(SHAPE, vocabulary=OLD, token_values=True)
    model, known = network.build(shape), bpe.train(("def add(first, second):\n    return first\n",) * 9, OLD)
    torch.nn.init.normal_(model.get_parameter("model.token_values.weight"))
    export(model, known, tmp_path / "finished", ("python",))
    return tmp_path / "finished", model, bpe.load(tmp_path / "finished")


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.token_values.weight"])
def test_entries_get_the_rows_of_what_the_finished_model_reads_there(
    name: str, finished: tuple[Path, network.EfimForCausalLM, Tokenizer], tmp_path: Path
) -> None:
    folder, model, known = finished
    vocabulary = bpe.train(TEXTS, NEW)
    trainer = _started(folder, vocabulary, tmp_path)
    before, after = (each.get_parameter(name).half().float() for each in (model, trainer.model))
    kept = [entry for entry in vocabulary.get_vocab() if entry in known.get_vocab()]
    assert {"<|fim_middle|>", "a", "first"} < set(kept) and len(kept) < len(vocabulary.get_vocab())
    for entry in kept:
        torch.testing.assert_close(after[vocabulary.token_to_id(entry)], before[known.token_to_id(entry)])
    new, read = "\u0120added", known.encode(" added").ids  # a space is spelled as U+0120 in an entry
    assert known.token_to_id(new) is None and len(read) > 1
    torch.testing.assert_close(after[vocabulary.token_to_id(new)], before[read].mean(0), atol=1e-3, rtol=1e-2)


def test_layers_are_the_finished_models(
    finished: tuple[Path, network.EfimForCausalLM, Tokenizer], tmp_path: Path
) -> None:
    folder, model, _ = finished
    trainer = _started(folder, bpe.train(TEXTS, NEW), tmp_path)
    theirs, ours = (dict(each.model.layers.named_parameters()) for each in (model, trainer.model))
    for name, weights in theirs.items():
        torch.testing.assert_close(ours[name], weights.half().float())


def test_each_finished_model_reads_the_corpus_in_an_order_of_its_own_and_a_resumed_run_goes_on_with_it(
    gathered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SETTINGS, tokens=4 * STEP, shape=replace(SHAPE, zero_outputs=True))  # unlike finished ones
    monkeypatch.setattr(pretraining, "PLANS", {"cpu": settings, "cuda": settings})
    run = ["run", "--corpus", str(gathered), "--tokenizer", str(gathered), "--lines", "0"]
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for before, out in pairwise((None, *folders)):
        start = ["--from", str(before / "export")] if before else []
        assert main([*run, "--tokens", "0.001", "--out", str(out), *start]) == 0
    states = [checkpoint.read_state(checkpoint.newest(out))["settings"] for out in folders]
    assert len({each["seed"] for each in states}) == 3 and states[0]["seed"] == 0
    assert [each["rate"] for each in states] == pytest.approx([SETTINGS.rate, SETTINGS.rate / 3, SETTINGS.rate / 3])
    assert main([*run, "--tokens", "0.001", "--out", str(folders[2]), "--resume"]) == 0
    assert checkpoint.read_state(checkpoint.newest(folders[2]))["settings"] == states[2]


def _started(folder: Path, vocabulary: Tokenizer, tmp_path: Path):
    shape = replace(SHAPE, vocabulary=vocabulary.get_vocab_size(), token_values=True)
    trainer = a_trainer(tmp_path / "run", replace(SETTINGS, shape=shape))
    trainer.start_from(folder, vocabulary)
    assert trainer.progress.tokens == 0
    return trainer
