"""A run that begins with the weights of a finished model whose tokenizer is another."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from efim_lab.training import network
from efim_lab.training.export import export
from efim_lab.training.samples import bpe
from tests.unit.training_run.tiny_run import SETTINGS, SHAPE, a_trainer

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


def _started(folder: Path, vocabulary: Tokenizer, tmp_path: Path):
    shape = replace(SHAPE, vocabulary=vocabulary.get_vocab_size(), token_values=True)
    trainer = a_trainer(tmp_path / "run", replace(SETTINGS, shape=shape))
    trainer.start_from(folder, vocabulary)
    assert trainer.progress.tokens == 0
    return trainer
