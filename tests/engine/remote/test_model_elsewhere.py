"""The embedded model beside a server: opened by the settings, shared by clients, described to users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.completion.models.kinds import kind_of
from efim_ls.completion.shared_models import SharedModels
from efim_ls.request import Request
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.errors import ModelError
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.remote.setting import RemoteOptions
from tests.engine.doubles import quick_decoder_of
from tests.engine.remote.fakes import FakeServer, FakeVllm, serving
from tests.waiting import HANG

SMALL = Settings(persist=False, head_tokens=200, max_lines=2)
TEXT = "def mean(values):\n    total = 0\n    for value in values:\n        "


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    """A server with the embedded model."""
    with serving(FakeVllm(quick_decoder_of(EMBEDDED), Tokenizer(EMBEDDED / "tokenizer.json"))) as served:
        served.context = 2560
        yield served


def asked_at(completer: Completer, text: str, language: str = "python"):
    answer = completer.complete(Request("file:///project/mean.py", text, len(text), language=language), NEVER)
    return answer, answer.better and answer.better.result(30)


@pytest.fixture
def settings(server: FakeServer) -> Settings:
    return replace(SMALL, engine=RemoteOptions(url=server.url, wait_seconds=10))


def test_the_embedded_model_answers_beside_the_server(settings: Settings, server: FakeServer) -> None:
    kind = kind_of(settings)
    kind.check(settings)
    kind.fetch(settings, lambda *_: None, False)
    completer = Completer.load(settings, lambda *_: None)
    answer, better = asked_at(completer, TEXT)
    assert answer.text and better and better.text
    assert server.bodies and completer.describe()["remote"] == settings.engine.host
    assert completer.describe()["model"] == str(EMBEDDED)
    assert completer.models.languages == ("python",) and completer.notice("python") is None
    completer.close(HANG)


def test_another_model_needs_its_tokenizer_here_and_no_weights(
    settings: Settings, surer: AnyDecoder, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    for name in ("tokenizer.json", "config.json", "tokenizer_config.json"):
        if (tokenizer.folder / name).exists():
            (tmp_path / name).write_bytes((tokenizer.folder / name).read_bytes())
    with serving(FakeVllm(surer, tokenizer)) as other:
        engine = replace(settings.engine, url=other.url)
        here = replace(settings, model=str(tmp_path), engine=engine, head_tokens=100)
        completer = Completer.load(here, lambda *_: None)
        _, better = asked_at(completer, TEXT)
        assert other.bodies and better is not None
        assert completer.models.languages == ("python", "*")
        _, better = asked_at(completer, "func main() {\n\t", "go")
        assert better is not None
        completer.close(HANG)
    with pytest.raises(ModelError):
        Completer.load(replace(settings, model=str(tmp_path / "none")), lambda *_: None)


def test_a_server_with_another_vocabulary_is_told_and_this_machine_answers(
    settings: Settings, surer: AnyDecoder, tokenizer: Tokenizer
) -> None:
    with serving(FakeVllm(surer, tokenizer)) as other:
        completer = Completer.load(replace(settings, engine=replace(settings.engine, url=other.url)), lambda *_: None)
        answer, better = asked_at(completer, TEXT)
        assert answer.text and better == answer and not other.bodies
        assert "another vocabulary" in (completer.notice("python") or "")
        completer.close(HANG)


def test_clients_share_the_engine_and_the_last_one_closes_it(settings: Settings) -> None:
    models = SharedModels()
    one, two = (models.load(settings, lambda *_: None) for _ in range(2))
    assert len(models.describe()) == 1
    one.close(HANG)
    assert asked_at(two, TEXT)[1] is not None
    two.close(HANG)
    models.close_unused(1)
    assert models.describe() == []
