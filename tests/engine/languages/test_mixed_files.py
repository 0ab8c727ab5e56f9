"""One document in several languages: the model of the part at the cursor answers, and the others stay warm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.completion.shared_models import SharedModels
from efim_ls.request import Answer, Request, Upcoming
from efim_ls.settings import Settings
from efim_ls.text.parts import part_at
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.sized import Sized
from tests.waiting import HANG

CODE = "def area(width, height)\n  width * height\nend\n"
VUE = (
    "<template>\n<p>{{ width }} {{ height }}</p>\n</template>\n<script lang='ts'>\n"
    "export function area(width: number, height: number): number {\n  return wid;\n}\n</script>\n"
)
TEXTS = {
    "vue": VUE,
    "erb": f"<%\n{CODE}%>\n<p>area</p>\n<%= area(wid, 2) %>\n",
    "php": "<?php\nfunction area($width, $height) {\n  return $wid;\n}\n?>\n<p>area</p>\n",
}
IN_CODE, IN_TEXT = "wid", "<p>"
Load = Callable[[Settings], Completer]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Sized(cache_folder=str(tmp_path / "cache"), max_new_tokens=16, persist=False)


@pytest.fixture
def load() -> Iterator[Load]:
    models, loaded = SharedModels(), list[Completer]()

    def load(settings: Settings) -> Completer:
        loaded.append(models.load(settings, lambda *_: None))
        return loaded[-1]

    yield load
    for each in loaded:
        each.close(HANG)
    models.close_unused(HANG)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., str]:
    """Return what makes a model's folder whose config names languages."""

    def make(*languages: str) -> str:
        made = shutil.copytree(EMBEDDED, tmp_path / "-".join(languages))
        config = json.loads((made / "config.json").read_text())
        (made / "config.json").write_text(json.dumps(config | {"programming_languages": languages}))
        return str(made)

    return make


def request(language: str, behind: str, typed: str = "") -> Request:
    """A key behind a text of the document, as a session asks it."""
    text, cursor = TEXTS[language], TEXTS[language].rindex(behind) + len(behind)
    text, cursor = f"{text[:cursor]}{typed}{text[cursor:]}", cursor + len(typed)
    made = Request(f"file:///a.{language}", text, cursor, explicit=True, language=language)
    return made.at_part(part_at(language, text, cursor))


def ask(completer: Completer, *place: str) -> Answer:
    return completer.complete(request(*place), NEVER)


def told(completer: Completer, *place: str) -> str:
    """What *Explain* says of the model at a place, the languages it knows left out."""
    notice = str(completer.explain(request(*place))["notice"] or "")
    return notice.rpartition("Choose a model that knows ")[2].partition(" with the setting")[0]


@pytest.mark.parametrize(
    ("language", "known", "unknown"), [("erb", "ruby", "ERB"), ("php", "php", "HTML"), ("vue", "typescript", "Vue")]
)
def test_a_model_that_knows_a_part_answers_there_and_phrases_elsewhere(
    language: str, known: str, unknown: str, load: Load, settings: Settings, folder: Callable[..., str]
) -> None:
    completer = load(replace(settings, model=folder(known)))
    assert ask(completer, language, IN_TEXT).costs.passes == 0
    assert completer.models.first.is_left(0), "nobody works with the model yet"
    assert ask(completer, language, IN_CODE).costs.passes > 0
    assert not completer.models.first.is_left(0)
    assert told(completer, language, IN_CODE) == "" and told(completer, language, IN_TEXT) == unknown


@pytest.mark.parametrize("language", ["vue", "erb"])
def test_a_model_that_knows_the_files_knows_their_parts(
    language: str, load: Load, settings: Settings, folder: Callable[..., str]
) -> None:
    completer = load(replace(settings, model=folder(language)))
    for place in (IN_CODE, IN_TEXT):
        assert ask(completer, language, place).costs.recomputed > 0 and told(completer, language, place) == ""
    part = request(language, IN_CODE).part
    assert part is not None and completer.models.language_in(part) == language


def test_a_part_is_left_as_it_was_while_phrases_answer_elsewhere(load: Load, settings: Settings) -> None:
    completer, alone = load(settings), load(settings)
    first = completer.complete(replace(request("vue", IN_CODE), explicit=False), NEVER)
    assert first.costs.recomputed > 20 and first.text.startswith("th")
    assert ask(completer, "vue", IN_TEXT).costs.passes == 0
    assert completer.prepare(Upcoming(request("vue", IN_TEXT), "rested"), NEVER)
    completer.rest(0)
    assert len(completer.models.in_use) == 2, "the document is still open"
    typed = replace(request("vue", IN_CODE, "t"), explicit=False)
    again = completer.complete(typed, NEVER)
    assert again.text == first.text.removeprefix("t") and again.costs.passes == 0 < again.costs.known
    assert again.text == alone.complete(typed, NEVER).text
    completer.close_document(typed.uri, save=False)
    completer.rest(0)
    assert len(completer.models.in_use) == 1, "a closed document leaves its model"


def test_a_part_is_saved_whatever_part_the_user_leaves_last(load: Load, settings: Settings) -> None:
    completer, uri = load(replace(settings, persist=True)), "file:///a.vue"
    before = ask(completer, "vue", IN_CODE)
    ask(completer, "vue", IN_TEXT)
    completer.close_document(uri, save=True)
    assert completer.save(uri, NEVER)
    completer.rest(0)
    after = ask(completer, "vue", IN_CODE)
    assert after.costs.fetched > 0 and after.text == before.text
