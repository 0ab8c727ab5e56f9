"""One client, several models: each answers in its languages as if alone, and is in memory while it is needed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from efim_ls.completion import models_by_language
from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.completer import Completer
from efim_ls.completion.shared_models import SharedModels
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.request import Answer, Request, Upcoming
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED
from tests.engine.doubles import counts_of
from tests.sized import Sized
from tests.waiting import HANG

TYPESCRIPT = SHIPPED["typescript"]
PLACES = {
    "python": "import os\n\n\ndef size_of(path):\n    return os.path.getsize(path)\n\n\n"
    "def is_large(path):\n    return ",
    "typescript": "export function area(width: number, height: number): number {\n  return width * height;\n}\n\n"
    "export function volume(width: number, height: number, depth: number): number {\n  return ",
    "go": "package main\n\nfunc area(width, height int) int {\n\treturn width * height\n}\n\nfunc main() {\n\tar",
}
URIS = {language: f"file:///a.{language}" for language in PLACES}

Load = Callable[[Settings], Completer]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Sized(cache_folder=str(tmp_path / "cache"), max_new_tokens=16, persist=False)


@pytest.fixture
def models() -> SharedModels:
    return SharedModels()


@pytest.fixture
def load(models: SharedModels) -> Iterator[Load]:
    loaded = list[Completer]()

    def load(settings: Settings) -> Completer:
        loaded.append(models.load(settings, lambda *_: None))
        return loaded[-1]

    yield load
    for each in loaded:
        each.close(HANG)
    models.close_unused(HANG)


def request(language: str, uri: str = "") -> Request:
    text = PLACES[language]
    return Request(uri or URIS[language], text, len(text), explicit=True, language=language)


def ask(completers: Completer, language: str, uri: str = "") -> Answer:
    return completers.complete(request(language, uri), NEVER)


def in_memory(completers: Completer) -> list[Path]:
    return [Path(str(each.summary()["model"])) for each in reversed(completers.models.in_use)]


def arenas(completers: Completer) -> list[int]:
    return [int(str(each.summary()["arenas"])) for each in reversed(completers.models.in_use)]


@pytest.mark.parametrize(("language", "folder"), [("python", EMBEDDED), ("typescript", TYPESCRIPT)])
def test_each_language_is_answered_as_by_its_model_alone(
    language: str, folder: Path, load: Load, settings: Settings
) -> None:
    alone = Completer.load(replace(settings, model=str(folder)), lambda *_: None)
    completers = load(settings)
    for each in PLACES:
        ask(completers, each)
    expected = ask(alone, language)
    assert expected.text and ask(completers, language).text == expected.text
    assert completers.models.model_for(language) == str(folder) and completers.notice(language) is None
    alone.close(HANG)


def test_a_model_is_loaded_when_a_document_in_its_language_is_opened(load: Load, settings: Settings) -> None:
    completers = load(settings)
    ask(completers, "python")
    ask(completers, "go")
    work = partial(
        completers.prepare,
        Upcoming(Request(URIS["typescript"], PLACES["typescript"], 0, language="typescript"), "opened"),
    )
    assert in_memory(completers) == [EMBEDDED], "work that has not begun loads nothing"
    assert work(NEVER)
    assert in_memory(completers) == [EMBEDDED, TYPESCRIPT]
    assert ask(completers, "typescript").costs.reused > 0


def test_models_share_the_memory_and_one_that_is_let_go_gives_it_back(load: Load, settings: Settings) -> None:
    completers = load(settings)
    ask(completers, "python")
    [whole] = arenas(completers)
    answer = ask(completers, "typescript")
    assert arenas(completers) == [whole // 2, whole // 2]
    completers.close_document(URIS["typescript"], save=False)
    completers.rest(3600)
    assert len(in_memory(completers)) == 2, "it may be opened again soon"
    completers.rest(0)
    assert (in_memory(completers), arenas(completers)) == ([EMBEDDED], [whole])
    again = ask(completers, "typescript")
    assert again.text == answer.text and again.costs.recomputed == answer.costs.recomputed


def test_a_model_without_documents_leaves_its_memory_to_those_that_have_some(load: Load, settings: Settings) -> None:
    completers = load(settings)
    ask(completers, "python")
    [whole] = arenas(completers)
    ask(completers, "typescript")
    completers.close_document(URIS["python"], save=False)
    assert arenas(completers) == [whole // 2, whole // 2]
    completers.rest(0)
    assert arenas(completers) == [1, whole]
    ask(completers, "python")
    assert arenas(completers) == [whole // 2, whole // 2]


def test_a_model_that_another_client_works_with_keeps_its_memory(load: Load, settings: Settings) -> None:
    one, two = load(settings), load(settings)
    [whole] = arenas(two)
    ask(one, "typescript")
    ask(one, "go")
    assert arenas(one) == [1, whole], "phrases need none"
    ask(two, "python")
    one.rest(0)
    assert arenas(one) == [whole // 2, whole // 2]
    two.close(HANG)
    one.rest(0)
    assert arenas(one) == [1, whole]


def test_a_model_stays_while_any_document_in_its_languages_is_open(load: Load, settings: Settings) -> None:
    completers = load(settings)
    ask(completers, "typescript")
    other = replace(request("typescript", "file:///b.jsx"), language="javascriptreact")
    assert completers.prepare(Upcoming(other), NEVER)
    completers.close_document(URIS["typescript"], save=False)
    completers.rest(0)
    assert len(in_memory(completers)) == 2
    completers.close_document("file:///b.jsx", save=False)
    completers.rest(0)
    assert in_memory(completers) == [EMBEDDED]


def test_a_document_that_changes_its_language_changes_its_model(load: Load, settings: Settings) -> None:
    completers, uri = load(settings), "file:///untitled"
    answers = [ask(completers, language, uri).text for language in ("python", "typescript", "python")]
    assert answers[0] == answers[2] != answers[1]
    completers.rest(0)
    assert in_memory(completers) == [EMBEDDED]


def test_what_was_computed_is_saved_when_a_model_is_let_go(load: Load, settings: Settings) -> None:
    completers = load(replace(settings, persist=True))
    before = ask(completers, "typescript")
    completers.close_document(URIS["typescript"], save=True)
    assert completers.save(URIS["typescript"], NEVER)
    completers.rest(0)
    after = ask(completers, "typescript")
    assert after.costs.fetched > 0 and after.text == before.text


def test_clients_share_a_languages_model_until_the_last_lets_it_go(
    load: Load, models: SharedModels, settings: Settings
) -> None:
    one, two = load(settings), load(settings)
    texts = {ask(each, "typescript").text for each in (one, two)}
    assert len(texts) == 1 and [each["clients"] for each in models.describe()] == [2, 2]
    for each, left in ((one, [2, 1]), (two, [2])):
        each.close_document(URIS["typescript"], save=False)
        each.rest(0)
        assert [each["clients"] for each in models.describe()] == left


def test_other_settings_share_no_memory(load: Load, settings: Settings) -> None:
    one, two = load(settings), load(replace(settings, memory_mib=64))
    before = arenas(two)
    ask(one, "typescript")
    assert arenas(two) == before


def test_a_model_that_is_named_is_meant_for_all_languages(load: Load, settings: Settings) -> None:
    completers = load(replace(settings, model=str(EMBEDDED)))
    ask(completers, "typescript")
    assert in_memory(completers) == [EMBEDDED] and completers.tokenizers.is_one
    assert completers.models.languages == ("python",)
    assert str(completers.notice("typescript")).startswith("The embedded models know Python only;")


def test_languages_that_are_named_are_those_that_a_model_is_asked_in(load: Load, settings: Settings) -> None:
    completers = load(replace(settings, model_languages=("python",)))
    ask(completers, "typescript")
    assert in_memory(completers) == [EMBEDDED] and completers.notice("typescript")
    completers = load(replace(settings, model_languages=("*",)))
    ask(completers, "typescript")
    assert in_memory(completers) == [EMBEDDED, TYPESCRIPT]
    assert ask(completers, "go").costs.recomputed > 0


def test_a_dialect_is_answered_by_the_model_of_its_language(
    load: Load, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_by_language, "embedded_for", {"cpp": TYPESCRIPT}.get)
    completers = load(settings)
    for dialect, model in (("CUDA-CPP", TYPESCRIPT), ("arduino", TYPESCRIPT), ("objective-c", EMBEDDED)):
        assert completers.models.model_for(dialect) == str(model)
    named = load(replace(settings, model=str(EMBEDDED), model_languages=("c",)))
    assert named.notice("objective-c") is None and "opencl" in named.models.languages
    assert str(named.notice("cuda-cpp")).startswith("The embedded models know C only;")


def test_all_that_some_model_knows_is_told(load: Load, settings: Settings) -> None:
    completers = load(settings)
    assert set(SHIPPED) <= set(completers.models.languages)
    assert str(completers.notice("fortran")).startswith(
        "The embedded models know Python, JavaScript and TypeScript only;"
    )


def test_where_a_model_cannot_be_loaded_phrases_answer_and_the_user_is_told(
    load: Load, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = shutil.copytree(TYPESCRIPT, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"damaged")
    monkeypatch.setattr(
        models_by_language, "embedded_for", lambda language: broken if language == "typescript" else EMBEDDED
    )
    completers = load(settings)
    for _ in range(2):
        answer = ask(completers, "typescript")
        assert answer.costs.recomputed == 0
    assert in_memory(completers) == [EMBEDDED]
    assert str(completers.notice("typescript")).startswith("The model for TypeScript cannot be used: ")
    assert completers.models.model_for("typescript") == str(EMBEDDED)
    assert len([each for each in caplog.records if "cannot be used" in each.getMessage()]) == 1


def test_counts_are_read_only_by_the_model_whose_tokens_they_count(
    load: Load, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    completers = load(settings)
    asked = list[Request]()
    ask_document = DocumentState.ask

    def noted(document: DocumentState, request: Request) -> Asked:
        asked.append(request)
        return ask_document(document, request)

    monkeypatch.setattr(DocumentState, "ask", noted)
    counts = counts_of(completers.tokenizers.of("javascript"), PLACES["typescript"]).without(())
    completers.complete(replace(request("typescript"), counts=counts), NEVER)
    completers.complete(replace(request("typescript"), language="javascriptreact", counts=counts), NEVER)
    assert [each.counts for each in asked] == [counts, counts]
    monkeypatch.setattr(models_by_language, "embedded_for", lambda _: None)
    load(settings).complete(replace(request("typescript"), counts=counts), NEVER)
    assert asked[-1].counts is None, "the first model has another tokenizer"
