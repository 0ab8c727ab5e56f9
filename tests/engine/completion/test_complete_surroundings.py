"""What the n-grams read besides the prompt: all of the file but what is to be completed, and other files."""

from __future__ import annotations

from dataclasses import replace
from gc import collect
from pathlib import Path
from weakref import ref

import numpy as np
import pytest

from efim_ls.completion.completer import Completer
from efim_ls.completion.models.kinds import kind_of
from efim_ls.completion.planning.window import SURROUNDING_CHARACTERS
from efim_ls.request import Request
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.ngrams import Ngrams
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.completion.test_complete import PLACE, SETTINGS, Make, ask, maker
from tests.engine.doubles import Watched, counts_of
from tests.models import CODE


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder)


def history_of(engine: Watched, tokenizer: Tokenizer) -> list[str]:
    """The texts between the breaks of the last prompt's history."""
    assert engine.log.prompt is not None
    history = engine.log.prompt.history
    parts = np.split(history, np.flatnonzero(history < 0))
    return [tokenizer.decode(part[part >= 0]) for part in parts]


@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("line", ["", "    x = (\n", "    x = ()\n", "    foo(bar, baz)\n"])
def test_all_of_the_file_is_read_but_what_is_to_be_completed(
    made: Make, tokenizer: Tokenizer, place: float, line: str
) -> None:
    completer, engine = made()
    lines = (CODE * 3).splitlines(keepends=True)
    row = int(place * len(lines))
    before, after = "".join(lines[:row]) + line[: len(line) // 2], line[len(line) // 2 :] + "".join(lines[row:])
    ask(completer, before + after, len(before))
    _, _, below = after.partition("\n")  # the rest of the line would tell what is to be completed
    read_after, read_before = history_of(engine, tokenizer)
    assert engine.log.prompt is not None
    assert read_before + engine.log.prompt.stub.decode() == before
    assert read_after == below


def test_other_documents_are_read_the_one_used_last_nearest(made: Make, tokenizer: Tokenizer) -> None:
    completer, engine = made()
    completer.complete(Request("file:///a.py", CODE, PLACE, others=("first = 1\n", "second = 2\n")), NEVER)
    assert history_of(engine, tokenizer)[:2] == ["first = 1\n", "second = 2\n"]


def test_of_an_endless_file_only_so_much_is_read(made: Make, tokenizer: Tokenizer) -> None:
    completer, engine = made()
    text = "x = 1\n" * (4 * SURROUNDING_CHARACTERS // 6)
    ask(completer, text, len(text) // 2)
    after, before = history_of(engine, tokenizer)
    assert SURROUNDING_CHARACTERS <= len(after) <= SURROUNDING_CHARACTERS + 2000
    assert SURROUNDING_CHARACTERS <= len(before) <= SURROUNDING_CHARACTERS + 2000


def test_without_n_grams_no_other_document_is_tokenized(folder: Path) -> None:
    settings = Settings(model=str(folder))
    opened = kind_of(settings).open(settings, lambda *_: None)
    loaded, tokenizer = Completer.over(opened, settings), opened.model.tokenizer
    loaded.complete(Request("file:///a.py", CODE, PLACE, others=("unread = 1\n",)), NEVER)
    misses = tokenizer.encode.cache_info().misses
    tokenizer.encode("unread = 1\n")
    assert tokenizer.encode.cache_info().misses == misses + 1


@pytest.mark.parametrize("questions", range(3))
def test_it_may_be_stopped_between_other_documents(made: Make, questions: int) -> None:
    completer, engine = made()
    asked = iter(range(questions))
    others = ("a = 1\n", "b = 2\n", "c = 3\n")
    request = Request("file:///a.py", CODE, PLACE, others=others)
    answer = completer.complete(request, Cancel(lambda: next(asked, None) is None))
    assert (answer.text, answer.reason, engine.log.prompt) == ("", "superseded", None)


# The repository


def view_of(tokenizer: Tokenizer, *texts: str) -> CountsView:
    return counts_of(tokenizer, *texts).without(())


PHRASE = "    zebra.quagga(wombat, 77)\n"
HEAD, BELOW = "def f(zebra):\n    zebra.qu", "\n"


def asked(text: str, counts: CountsView | None, typed: str = "", explicit: bool = False) -> Request:
    before = text + typed
    return Request("file:///a.py", before + BELOW, len(before), explicit, counts=counts)


@pytest.fixture(scope="module")
def counting(folder: Path) -> Make:
    """Completers of a model that says only what it has counted, wherever it has."""
    counts = Ngrams((0.0,), 500.0, (0.0, 0.0, *(1.0,) * 14))
    return maker(folder, settings=replace(SETTINGS, max_new_tokens=24), cache=counts)


def test_a_phrase_that_only_the_repository_has_is_finished(counting: Make, tokenizer: Tokenizer) -> None:
    for view, known in ((view_of(tokenizer, PHRASE), True), (view_of(tokenizer), False), (None, False)):
        completer, engine = counting()
        answer = completer.complete(asked(HEAD, view), NEVER)
        assert (answer.text == "agga(wombat, 77)") is known
        assert engine.log.prompt is not None and engine.log.prompt.counts == view


def test_what_the_repository_said_is_known_by_word(counting: Make, tokenizer: Tokenizer) -> None:
    completer, engine = counting()
    view = view_of(tokenizer, "x = 1\n" + PHRASE)
    completer.complete(asked(HEAD, view), NEVER)
    assert engine.log.made is not None
    made = engine.log.made.likelihood
    at = made.text.index("wombat")
    assert made.shares(at, at + 6) == pytest.approx((0, 0, 1), abs=1e-6)
    (place,) = made.places(view, at, at + 6, 3)
    read = tokenizer.encode("x = 1\n" + PHRASE)
    assert place.path == "/0"
    assert "wombat".startswith(tokenizer.decode(read[place.offset :]).strip()[:2])


def test_a_new_view_takes_effect_where_the_suggestion_is_not_typed_through(
    counting: Make, tokenizer: Tokenizer
) -> None:
    completer, engine = counting()
    old, new = view_of(tokenizer, PHRASE), view_of(tokenizer, PHRASE.replace("wombat, 77", "emu"))
    assert completer.complete(asked(HEAD, old), NEVER).text == "agga(wombat, 77)"
    engine.log.made = None
    assert completer.complete(asked(HEAD, new, "ag"), NEVER).text == "ga(wombat, 77)"
    assert engine.log.made is None, "known"
    assert completer.complete(asked(HEAD, new, "agga(w"), NEVER).text == "ombat, 77)"
    assert completer.complete(asked(HEAD, new, "agga("), NEVER).text == "wombat, 77)", "taken back, it still stands"
    assert completer.complete(asked(HEAD, new, "agga(e"), NEVER).text == "mu)", "another key: the new view"
    assert completer.complete(asked(HEAD, new), NEVER).text == "agga(emu)"
    assert completer.complete(asked(HEAD, None), NEVER).text != "agga(emu)", "none takes effect at once"


@pytest.mark.parametrize("explicit", [False, True])
def test_a_new_view_takes_effect_where_nothing_of_a_suggestion_has_been_typed(
    counting: Make, tokenizer: Tokenizer, explicit: bool
) -> None:
    completer, _ = counting()
    old, new = view_of(tokenizer, PHRASE), view_of(tokenizer, PHRASE.replace("wombat, 77", "emu"))
    assert completer.complete(asked(HEAD, old), NEVER).text == "agga(wombat, 77)"
    assert completer.complete(asked(HEAD, new, explicit=explicit), NEVER).text == "agga(emu)"
    assert completer.complete(asked(HEAD, old, "ag", explicit=explicit), NEVER).text == "ga(emu)", "typed through"


def test_an_explicit_request_keeps_the_view_of_the_suggestion_that_stands(
    counting: Make, tokenizer: Tokenizer
) -> None:
    completer, _ = counting()
    old, new = view_of(tokenizer, PHRASE), view_of(tokenizer, PHRASE.replace("wombat, 77", "emu"))
    completer.complete(asked(HEAD, old), NEVER)
    assert completer.complete(asked(HEAD, new, "ag", explicit=True), NEVER).text == "ga(wombat, 77)"


def test_closing_a_document_forgets_the_view(counting: Make, tokenizer: Tokenizer) -> None:
    completer, _ = counting()
    old, new = view_of(tokenizer, PHRASE), view_of(tokenizer, PHRASE.replace("wombat, 77", "emu"))
    completer.complete(asked(HEAD, old), NEVER)
    completer.close_document("file:///a.py", save=True)
    assert completer.complete(asked(HEAD, new), NEVER).text == "agga(emu)"


def test_a_document_that_is_left_keeps_no_old_view(counting: Make, tokenizer: Tokenizer) -> None:
    completer, _ = counting()
    view, other = view_of(tokenizer, PHRASE), replace(asked(HEAD, None), uri="file:///b.py")
    completer.complete(asked(HEAD, view), NEVER)
    alive = ref(view)
    del view
    collect()
    assert alive() is not None
    completer.complete(other, NEVER)
    collect()
    assert alive() is None
