"""The measurement of what isolated excerpts cost: the same text at the same places, isolated, whole and left out."""

from pathlib import Path

import pytest
import torch

from efim_lab.gate import network
from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training.export import export
from efim_lab.workshop.training.run.mask_check import WAYS, check_masks, choose_places
from efim_lab.workshop.training.samples import bpe
from model_runtime.checkpoint.config import read_config
from model_runtime.prompt.tokenizer import Tokenizer

DOCUMENTS = [
    CodeDocument(f"pack-1/pack/{name}.py", f"def {name}(value):\n    return value + {n}\n\n\nprint({name}(2))\n" * 3)
    for n, name in enumerate(("first", "second"))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    made = tmp_path_factory.mktemp("model")
    vocabulary = bpe.train([each.text for each in DOCUMENTS], 300)
    shape = network.Shape(vocabulary.get_vocab_size(), width=32, layers=2, heads=1, feed_forward=32)
    export(network.build(shape), vocabulary, made, excerpt_rows=512)
    return made


def test_each_way_shows_the_same_text_at_the_same_places(folder: Path):
    tokenizer = Tokenizer(folder / "tokenizer.json")
    excerpt, middle = bpe.ID[bpe.FILE], bpe.ID[bpe.MIDDLE]
    for place in choose_places(tokenizer, DOCUMENTS, 20):
        samples = place.samples
        assert list(samples) == list(WAYS)
        fronts = {way: ids[: ids.index(bpe.ID[bpe.PREFIX])] for way, ids in samples.items()}
        assert fronts["none"] == [] and fronts["isolated"][0] == excerpt
        own = len(fronts["seen whole"]) - fronts["seen whole"][::-1].index(excerpt) - 1
        name = fronts["seen whole"].index(excerpt)
        assert fronts["seen whole"][name:own] == fronts["isolated"]
        assert len({tuple(ids[ids.index(middle) :]) for ids in samples.values()}) == 1


def test_the_table_is_the_same_twice_and_tells_all_ways(folder: Path):
    told = check_masks(folder, DOCUMENTS, 5)
    assert told == check_masks(folder, DOCUMENTS, 5)
    assert [line.split("|")[1].strip() for line in told.splitlines()[2:5]] == list(WAYS)


def test_an_exported_model_says_that_it_has_a_room(folder: Path):
    config = read_config(folder)
    assert (config.excerpt_rows, config.mask, config.context) == (512, "typed", bpe.CONTEXT)
