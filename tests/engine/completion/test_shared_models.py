"""Clients that share a model: their documents' KV apart, their answers as if alone."""

from __future__ import annotations

import itertools
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.completion.models import kv_persistence
from efim_ls.completion.shared_models import SharedModels
from efim_ls.request import Answer, Request
from efim_ls.settings import Settings
from kv_store.open import OpenedStore, open_store
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.engine.gguf_files import write
from tests.models import Tiny, make
from tests.sized import Sized
from tests.waiting import HANG

URI = "file:///same.py"
ONE = "import os\n\n\ndef size_of(path):\n    return os.path.getsize(path)\n\n\ndef is_large(path):\n    return "
TWO = "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, it):\n        self.items."


@pytest.fixture
def models() -> SharedModels:
    return SharedModels()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Sized(cache_folder=str(tmp_path / "cache"), max_new_tokens=16)


def load(models: SharedModels, settings: Settings) -> Completer:
    return models.load(settings, lambda *_: None)


def ask(completer: Completer, text: str) -> Answer:
    return completer.complete(Request(URI, text, len(text), explicit=True, language="python"), NEVER)


def test_the_same_uri_in_two_clients_is_two_documents(models: SharedModels, settings: Settings):
    one, two = load(models, settings), load(models, settings)
    alone = Completer.load(replace(settings, persist=False), lambda *_: None)
    expected = [
        ask(alone, ONE + "o"),
        ask(Completer.load(replace(settings, persist=False), lambda *_: None), TWO + "a"),
    ]
    ask(one, ONE)
    ask(two, TWO)
    answers = [ask(one, ONE + "o"), ask(two, TWO + "a")]
    assert [each.text for each in answers] == [each.text for each in expected]
    assert all(each.costs.recomputed < 5 for each in answers), [each.costs for each in answers]


def test_one_model_for_settings_that_it_does_not_depend_on(models: SharedModels, settings: Settings):
    load(models, settings)
    load(models, replace(settings, private_files=("*.sql",), max_lines=3, suggestions=0.5))
    assert [each["clients"] for each in models.describe()] == [2]
    load(models, replace(settings, max_new_tokens=8))
    assert [each["clients"] for each in models.describe()] == [2, 1]


@pytest.mark.parametrize("ways", [*itertools.permutations(["auto", "phrases", "off"])], ids="-".join)
@pytest.mark.parametrize("reads", [False, True])
def test_one_model_for_clients_whose_prompts_show_the_same(
    models: SharedModels, settings: Settings, ways: tuple[str, ...], reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reads:
        monkeypatch.setattr("efim_ls.completion.models.open.shows_other_files", reading_by_itself)
    mine = replace(settings, model=str(EMBEDDED))
    clients = {way: load(models, replace(mine, other_files=way)) for way in ways}
    shown = {way: any(client.context_budget) for way, client in clients.items()}
    assert shown == {"auto": reads, "phrases": False, "off": False}
    assert {each["clients"] for each in models.describe()} == ({1, 2} if reads else {3})


def reading_by_itself(settings: Settings, checkpoint: object) -> tuple[bool, str]:
    is_on = settings.other_files in ("auto", "text")
    return is_on, "trained on repositories" if is_on else "switched off"


def test_a_model_stays_until_another_is_needed(models: SharedModels, settings: Settings):
    first = load(models, settings)
    ask(first, ONE)
    first.close(HANG)
    assert [each["clients"] for each in models.describe()] == [0]
    again = load(models, settings)
    assert ask(again, ONE).costs.recomputed < 5, "what the client before computed is there"
    again.close(HANG)
    load(models, replace(settings, max_new_tokens=8))
    assert [each["clients"] for each in models.describe()] == [1]


def test_a_model_that_changed_on_disk_is_loaded_again(models: SharedModels, settings: Settings, tmp_path: Path):
    folder = shutil.copytree(EMBEDDED, tmp_path / "model")
    mine = replace(settings, model=str(folder))
    load(models, mine)
    load(models, mine)
    (folder / "config.json").write_text((folder / "config.json").read_text("utf-8") + "\n", "utf-8")
    load(models, mine)
    assert [each["clients"] for each in models.describe()] == [2, 1]


def test_a_file_that_changed_is_loaded_again(models: SharedModels, settings: Settings, tmp_path: Path):
    tiny = make(tmp_path / "tiny", Tiny(hidden=64, intermediate=96, head_dim=32))
    mine = replace(settings, model=str(write(tmp_path / "tiny.gguf", tiny)))
    load(models, mine)
    load(models, mine)
    write(tmp_path / "tiny.gguf", tiny, "F16")
    load(models, mine)
    assert [each["clients"] for each in models.describe()] == [2, 1]


LONG = "\n".join(f"value_{n} = {n}" for n in range(60)) + "\n"


def test_what_a_client_leaves_is_saved_and_the_others_go_on(models: SharedModels, settings: Settings):
    one, two = load(models, settings), load(models, settings)
    ask(one, LONG + ONE)
    one.close(HANG)
    ask(two, LONG[::-1] + TWO)
    two.close(HANG)
    models.close_unused(5.0)
    for text in (LONG + ONE, LONG[::-1] + TWO):
        assert ask(load(SharedModels(), settings), text).costs.fetched > 0


def test_a_client_that_wants_privacy_keeps_others_writing(
    models: SharedModels, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    stores, slow = list[OpenedStore](), threading.Event()
    monkeypatch.setattr(kv_persistence, "open_store", lambda *given: stores.append(open_store(*given)) or stores[-1])
    one, two = load(models, settings), load(models, settings)
    [store] = stores
    store.submit(lambda: None if slow.wait(HANG) else None)
    ask(two, LONG + ONE)
    two.close_document(URI, save=True)
    assert two.save(URI, NEVER)
    one.close(HANG, replace(settings, private_files=("*.py",)))
    slow.set()
    two.close(HANG)
    models.close_unused(5.0)
    assert ask(load(SharedModels(), settings), LONG + ONE).costs.fetched > 0


def test_what_one_client_calls_private_goes_whenever_another_has_saved_it(models: SharedModels, settings: Settings):
    public, private = load(models, settings), load(models, replace(settings, private_files=("same.*",)))
    found = list[bool]()
    for client in (public, private, private, public, private):
        ask(client, LONG + ONE)
        assert client.save(URI, NEVER) and client.flush(HANG)
        found.append(bool(client.tiers[1]["blocks"]))
    assert found == [True, False, False, True, False]
