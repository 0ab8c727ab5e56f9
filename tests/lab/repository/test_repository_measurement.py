"""The embedded model at places of a small project: what its other files bring, bits, and the command."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from math import log2
from pathlib import Path

import numpy as np
import pytest
import torch

from efim_lab import commands as cli
from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.studies.repository import data
from efim_lab.studies.repository.arms import ALONE, ARMS
from efim_lab.studies.repository.bits import bits_of
from efim_lab.studies.repository.data import RepositoryFiles
from efim_lab.studies.repository.excerpts import OtherFiles
from efim_lab.studies.repository.measurement import PlaceScore, measure
from efim_lab.studies.repository.places import RepositoryPlace, choose_places
from efim_lab.studies.repository.report import UNKNOWN, report, table
from efim_ls.completion.models.open import load_model
from efim_ls.settings import Settings
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.linear import packed_format
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.load import LoadedModel
from model_runtime.prompt.prompt import Prompt, build
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import ExcerptBudget
from tests.engine.doubles import decoder_of
from tests.engine.evaluating import with_ngrams

STOCK = """LIMIT = 9


class Stock:
    def __init__(self, warehouse):
        self.warehouse_items = {}

    def register_delivery(self, item, count):
        self.warehouse_items[item] = count
"""
USES = """from .stock import LIMIT, Stock


def fill(items, warehouse):
    total = 0
    for item in items:
        total += items[item]
        if total > 100:
            raise ValueError("too much")
    result = []
    for item in items:
        result.append(item)
    result.sort()
    first = result[0]
    stock = Stock(warehouse)
    stock.register_delivery(item, count=first)
    return stock
"""
OTHER = USES.replace("fill", "refill") + "\n\nlimits = {refill({}, None): LIMIT + 1}\n"
DOCUMENTS = [
    CodeDocument(f"shop/{name}.py", text)
    for name, text in (("__init__", ""), ("stock", STOCK), ("uses", USES), ("again", OTHER))
]
COUNTS = ARMS[:2]  # the file alone, and the counts of others
TARGET = "stock = Stock(warehouse)"


def place(kind: str = "inproject") -> RepositoryPlace:
    (found,) = (
        each
        for each in choose_places([DOCUMENTS], 9, ["inproject"])
        if (each.document.path, each.target) == ("shop/uses.py", TARGET)
    )
    return replace(found, kind=kind)


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A tiny model with n-grams."""
    caching = with_ngrams(folder, tmp_path_factory.mktemp("caching") / "model")
    (caching / NGRAMS_FILE).write_text(Ngrams((0.1, 0.5, 0.8), 500.0).to_json())
    loaded, _ = load_model(Settings(str(caching), persist=False, weights=packed_format()), lambda _, __: None)
    return loaded


def prompt_of(model: LoadedModel, typed: str) -> Prompt:
    return build(model.tokenizer, model.template, "import os\nvalue = os.pa\n", "print(value)\n", typed)


@pytest.mark.parametrize("typed", ["value = os.pa", "value = ", "val"])
def test_bits_are_those_of_the_mixture_among_tokens_that_fit(model: LoadedModel, folder: Path, typed: str) -> None:
    prompt, text = prompt_of(model, typed), "th.join(x)"
    decoder, cache, stub = decoder_of(folder, packed_format()), model.ngrams, prompt.stub
    assert cache and stub
    arena, ids, bits = DenseArena(decoder.config, 512), prompt.ids, 0.0
    history = prompt.history
    for token in model.tokenizer.encode(stub.decode() + text):
        logits = decoder.forward(ids, arena)[0]
        chances = cache.mix(torch.softmax(logits, -1).numpy(), history)
        fitting = [
            other
            for other, spelled in enumerate(model.tokenizer.token_bytes)
            if not stub or (spelled and (spelled.startswith(stub) or stub.startswith(spelled)))
        ]
        bits -= log2(chances[token] / chances[fitting].sum())
        stub = stub[len(model.tokenizer.token_bytes[token]) :]
        ids = np.array([token], dtype=np.int32)
        history = np.concatenate((history, ids))
    for _ in range(2):  # the second time from what the arena holds
        assert bits_of(model, prompt, text) == pytest.approx(bits, rel=1e-3)


def test_bits_are_of_the_mixture_with_what_a_prompt_knows(model: LoadedModel) -> None:
    prompt = prompt_of(model, "value = os.pa")
    informed = replace(
        prompt, history=np.concatenate((model.tokenizer.encode("value = os.patience(7)\n"), prompt.history))
    )
    bits = bits_of(model, prompt, "tience(7)")
    assert bits_of(model, informed, "tience(7)") < bits - 3
    assert bits_of(model, prompt, "tience(7)") == bits > bits_of(model, prompt, "th")
    alone = replace(model, ngrams=None)
    assert bits_of(alone, informed, "tience(7)") == bits_of(alone, prompt, "tience(7)")


def test_the_repository_is_known_to_the_arms_that_read_it() -> None:
    steps: list[tuple[str, int, int]] = []
    places = [place(), place("chunk")]
    found = measure(EMBEDDED, DOCUMENTS, places, 1, lambda *step: steps.append(step), COUNTS)
    assert tuple(found) == COUNTS
    alone, counts = (found[arm][0] for arm in COUNTS)
    assert (counts.is_exact, alone.is_exact) == (True, False)
    assert counts.bits < alone.bits / 2
    for scores in found.values():
        assert [score.place for score in scores] == places
        for score in scores:
            assert len(score.keystrokes) == len(TARGET) - 1
            assert score.prompt and score.prompt > 100 > 10 > sum(score.keystrokes)
    assert steps[:3] == [("embedded, the file alone and memory", done, 2) for done in range(3)]
    assert steps[-1] == ("embedded, memory, typed", 2, 2)
    # The same again, whatever is measured beside it.
    (only,) = measure(EMBEDDED, DOCUMENTS, places, 1, lambda *_: None, COUNTS[1:]).values()
    assert only == found[COUNTS[1]]


@pytest.mark.parametrize("parts", [(0, 0, 0), (600, 0, 0), (0, 600, 0), (0, 0, 600), (600, 600, 600)])
def test_what_an_index_of_the_repository_has_to_show_is_shown(
    parts: tuple[int, int, int], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    with closing(OtherFiles(DOCUMENTS, tokenizer, tmp_path)) as others:
        budget, asked = ExcerptBudget(*parts), place()
        found = others.excerpts(asked, budget, retrieved=True)
        assert [bool(part) for part in (found.signatures, found.imports, found.similar)] == [n > 0 for n in parts]
        files = {Path(each.file).relative_to(tmp_path).as_posix() for each in found.all}
        assert files <= {"shop/shop/stock.py", "shop/shop/again.py"}  # never its own, which has the target
        assert all(each.path in ("shop/stock.py", "shop/again.py") for each in found.all)
        assert "register_delivery" in "".join(each.text for each in found.all) or not any(parts)
        assert not others.excerpts(asked, budget, retrieved=False).similar
        assert others.excerpts(asked, budget, retrieved=True) == found


def test_prompts_show_what_an_arm_says() -> None:
    arm = ARMS[-1]
    found = measure(EMBEDDED, DOCUMENTS, [place()], 1, lambda *_: None, (ALONE, arm))
    (alone,), (shown,) = found.values()
    assert alone.prompt and shown.prompt and shown.prompt > alone.prompt + 20
    assert not alone.retrieved
    assert sum(shown.keystrokes) < 10


def test_what_the_file_alone_completes_is_left_out_of_one_kind() -> None:
    first = replace(place(), kind="first use")
    wrong, right = PlaceScore(first, "stock = Shop()", 48.0), PlaceScore(first, TARGET, 24.0, False, 300, (0, 2))
    one, other = (
        report("m", dict(zip(COUNTS, ([right], [wrong]), strict=True))),
        report("m", dict(zip(COUNTS, ([wrong], [right]), strict=True))),
    )
    assert list(one.kinds) == ["first use"] and list(other.kinds) == ["first use", UNKNOWN]
    figures, gain = other.kinds[UNKNOWN].arms["memory"], other.kinds[UNKNOWN].gains["memory, less the file alone"]
    assert figures.exact and figures.recomputed and figures.bits_per_character and gain.bits_per_character
    assert (figures.exact.value, figures.recomputed.value, figures.prompt) == (1.0, 1.0, 300)
    assert (figures.bits_per_character.value, gain.bits_per_character.value) == (1.0, -1.0)
    alone = other.kinds[UNKNOWN].arms["the file alone"]
    assert alone.recomputed is None and alone.prompt is None
    shown = table([RepositoryFiles("shop", "2.0", ())], [one, replace(other, model="n")])
    assert "Places in shop 2.0, 95 %" in shown
    assert (shown.count("| memory, m "), shown.count("| memory, less the file alone, n ")) == (1, 2)


NUMBERS = "".join(f"a{n} = {n}\n" for n in range(10))
SHORT = f"from .items import Item, f\n\n{NUMBERS}b = f(a1)\nc = b\nId = Item\n"


def test_the_command_measures_repositories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"__init__": "", "items": "class Item: ...\ndef f(): ...\n", "a": SHORT, "tests/test_a": "f()\n"}
    for name, text in files.items():
        path = tmp_path / f"shop/{name}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    arguments = ["eval", "--repository", "--data", str(tmp_path / "shop"), "--lines", "1", "--typed", "1"]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert found["repositories"] == [{"name": "shop", "version": "", "files": 3}]
    (measured,) = found["models"]
    assert measured["model"] == "embedded"
    assert {name: kind["places"] for name, kind in measured["kinds"].items() if name != UNKNOWN} == {
        "first use": 1,
        "inproject": 1,
        "infile": 1,
        "common": 1,
        "chunk": 1,
    }
    assert out.count("| the file alone") == len(measured["kinds"])
    assert cli.main([*arguments, "--data", str(tmp_path / "shop")]) == 2
    assert "two repositories are named shop: rename a folder" in capsys.readouterr().err


def test_tests_alone_are_no_repository(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/a.py").write_text("x = 1\n")
    with pytest.raises(WorkError, match="has no code except tests"):
        data.read_repositories([tmp_path])


def test_data_without_code_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    assert cli.main(["eval", "--repository", "--data", str(tmp_path / "empty.jsonl")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "empty.jsonl has no code except tests" in err and err.count("\n") == 1


def test_without_data_the_installed_packages_that_are_held_out_are_measured(tmp_path: Path) -> None:
    found = {each.name: each for each in data.read_repositories([])}
    assert "asyncio" in found and set(found) <= set(data.HELD_OUT)
    assert all(each.path.startswith("asyncio/") for each in found["asyncio"].documents)
    corpus = tmp_path / "heldout.jsonl"
    lines = [
        {"path": "p/a.py", "text": "a = 1\r\n"},
        {"path": "q/b.py", "text": "b"},
        {"path": "p/tests/c.py", "text": ""},
    ]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    read = data.read_repositories([corpus])
    assert [(each.name, each.documents) for each in read] == [
        ("p", (CodeDocument("p/a.py", "a = 1\n"),)),
        ("q", (CodeDocument("q/b.py", "b"),)),
    ]
