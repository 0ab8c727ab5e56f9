"""Languages that a model does not know: the file's own phrases speak, and nothing goes through the model."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.answerers.phrases import LONGEST_LINE, SHORTEST, PhraseAnswerer
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.request import Answer, Costs, Request, Upcoming
from efim_ls.session.prefetch import accepted
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.phrases import Phrases
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.completion.test_complete import SETTINGS, Make, completer_of, maker
from tests.engine.doubles import ENDLESS, counts_of
from tests.models import CODE
from tests.waiting import HANG

GOLDEN = Path(__file__).parents[2] / "golden" / "phrases"
CASES = {
    f"{path.stem}: {raw['name']}": str(raw["text"])
    for path in sorted(GOLDEN.glob("*.toml"))
    for raw in tomllib.loads(path.read_text("utf-8"))["case"]
}
URI = "file:///a.ts"
LINES = CODE.splitlines(keepends=True)


def speaker(tokenizer: Tokenizer) -> PhraseAnswerer:
    return PhraseAnswerer(tokenizer, max_new_tokens=64, max_lines=12)


def asked(text: str, cursor: int, **more: Any) -> Request:
    return Request(URI, text, cursor, language="typescript", **more)


def unplanned() -> DocumentState:
    return DocumentState(lambda: pytest.fail("nothing is planned"))


def complete(phrases: PhraseAnswerer, request: Request, cancel: Cancel = NEVER) -> Answer:
    document = unplanned()
    return phrases.complete(document, document.ask(request), cancel)


@pytest.fixture(scope="module")
def embedded() -> PhraseAnswerer:
    return speaker(Tokenizer(EMBEDDED / "tokenizer.json"))


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    """Makers of completers whose tiny model knows Python only."""
    return maker(folder, settings=replace(SETTINGS, model_languages=("python",)))


# What is shown


@pytest.mark.parametrize("drawn", CASES.values(), ids=CASES.keys())
def test_phrases_are_suggested_as_they_are_drawn(embedded: PhraseAnswerer, drawn: str) -> None:
    before, _, marked = drawn.partition("├")
    expected, _, after = marked.partition("┤")
    answer = complete(embedded, asked(before + after, len(before)))
    assert answer.text == expected
    assert (answer.reason is None) == bool(expected)


def test_a_user_who_asks_sees_what_is_less_sure(embedded: PhraseAnswerer) -> None:
    text = 'log.info("a");\nlog.info("b");\nlog.warn("c");\nlog.'
    unasked, by_key = (
        complete(embedded, asked(text, len(text), explicit=explicit, least=least), NEVER)
        for explicit, least in ((False, 0.9), (True, 0.0))
    )
    assert (unasked.text, unasked.reason) == ("", "no phrase")
    assert by_key.text.startswith("info")


GO = """
type Item struct {
	name  string
	price int
}

func (i Item) Label() string {
	return fmt.Sprintf("%s %d", i.name, i.price)
}

func show(items []Item) {
	for _, item := range items {
		name := item.name
		fmt.Prin"""


@pytest.mark.parametrize("text", [GO, "t = Name.pri", "t Pr)\nitem(na", "name)\nt(pri(it", "in.name)\name am"])
def test_no_word_is_made_of_the_halves_of_two(embedded: PhraseAnswerer, text: str) -> None:
    assert complete(embedded, asked(text, len(text), explicit=True)).text == ""


def test_a_word_that_stands_in_the_file_or_the_repository_is_finished(embedded: PhraseAnswerer) -> None:
    tokenizer, said = Tokenizer(EMBEDDED / "tokenizer.json"), "\t\tfmt.Println(name)\n" * 3
    known = counts_of(tokenizer, *[f"{said}{number}" for number in range(4)]).without(())
    for text, counts in ((said + GO, None), (GO, known)):
        answer = complete(embedded, asked(text, len(text), explicit=True, counts=counts))
        assert answer.text.startswith("tln(name)")


def test_the_lines_of_a_phrase_follow_the_place(embedded: PhraseAnswerer) -> None:
    said = "func load() {\n\tfor {\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t}\n}\n" * 3
    text = f"{said}\nfunc save() {{\n\tif err"
    answer = complete(embedded, asked(text, len(text), explicit=True))
    assert answer.text.startswith(" != nil {\n\t\treturn nil, err")


def test_the_setting_raises_the_gate(embedded: PhraseAnswerer) -> None:
    drawn = CASES["typescript: a loop that stands above is written again, as far as it is sure"]
    before = drawn.partition("├")[0]
    sure = complete(embedded, asked(before, len(before)), NEVER)
    assert sure.confidence is not None and 0.5 <= sure.confidence < 1
    higher = complete(embedded, asked(before, len(before), least=0.99), NEVER)
    assert len(higher.text) < len(sure.text)
    assert complete(embedded, asked(before, len(before), least="more"), NEVER).text == sure.text


def test_other_open_files_are_read_and_nothing_else_is(embedded: PhraseAnswerer) -> None:
    text, other = "zebra.brushedBy", "zebra.brushedByKeeper(path);\n" * 4
    assert complete(embedded, asked(text, len(text)), NEVER).text == ""
    beside = complete(embedded, asked(text, len(text), others=(other,)), NEVER)
    assert beside.text.startswith("Keeper(path)")


def test_the_repository_is_read(embedded: PhraseAnswerer) -> None:
    tokenizer = Tokenizer(EMBEDDED / "tokenizer.json")
    text = "if (ready) zebra.brushedBy"
    known = counts_of(tokenizer, *[f"{text}Keeper(path, true);\n"] * 4)
    for view, finished in ((known.without(()), True), (known.without(known.paths), False), (None, False)):
        answer = complete(embedded, asked(text, len(text), explicit=True, counts=view), NEVER)
        assert answer.text.startswith("Keeper(path") is finished


def test_a_new_view_waits_while_a_phrase_is_typed_through(embedded: PhraseAnswerer) -> None:
    tokenizer, text = Tokenizer(EMBEDDED / "tokenizer.json"), "if (ready) zebra.brushedBy"
    old, new = (counts_of(tokenizer, *[f"{text}{name}(path);\n"] * 4).without(()) for name in ("Keeper", "Nobody"))
    document = unplanned()

    def ask(typed: str, counts: CountsView, explicit: bool = False) -> str:
        request = asked(text + typed, len(text + typed), explicit=explicit, counts=counts)
        return embedded.complete(document, document.ask(request), NEVER).text

    assert ask("", old, explicit=True).startswith("Keeper(")
    assert ask("Ke", new).startswith("eper(")
    assert ask("N", new, explicit=True).startswith("obody(")
    assert ask("", new, explicit=True).startswith("Nobody(")


def test_what_is_no_code_gets_nothing(embedded: PhraseAnswerer) -> None:
    for text, reason in (("a\0b\nfoo", "binary text"), ("x" * (LONGEST_LINE + 1), "line too long")):
        assert complete(embedded, asked(text, len(text)), NEVER).reason == reason


def test_it_stops_between_two_tokens(embedded: PhraseAnswerer) -> None:
    text = LINES[0] * 3
    answer = complete(embedded, asked(text, len(text)), Cancel(lambda: True))
    assert (answer.text, answer.reason) == ("", "superseded")


# Through a completer


def test_nothing_is_computed_planned_or_prefetched(made: Make) -> None:
    completer, engine = made()
    text = CODE + LINES[0]
    for cursor in (len(text) - 4, 0, len(CODE) // 2):
        request = asked(text, cursor)
        answer = completer.complete(request, NEVER)
        assert completer.prepare(Upcoming(request), NEVER) and completer.prepare(
            Upcoming(Request(URI, text, 0, language="typescript"), "opened"), NEVER
        )
        assert replace(answer.costs, ms=Costs().ms, new_tokens=0) == Costs()
    assert engine.log.events == [] and engine.prefetched == 0
    assert not completer._documents[URI].unsaved


def test_the_model_is_asked_in_its_own_language_and_where_none_is_named(made: Make) -> None:
    for language in ("python", "Python", ""):
        completer, engine = made()
        completer.complete(replace(asked(CODE, 200), language=language), NEVER)
        assert engine.log.passes, language
        assert completer.notice(language) is None


class Gopher(PhraseAnswerer):
    """Says what it is asked, in Go only."""

    languages = ("go",)

    def complete(self, document: DocumentState, asked: Asked, cancel: Cancel) -> Answer:
        return Answer("func")

    def prepare(self, document: DocumentState, place: Upcoming, cancel: Cancel) -> bool:
        return False


def test_who_answers_in_another_language_is_one_more_of_those_who_answer(made: Make) -> None:
    completer, engine = made()
    completer.models.first.answerers.insert(1, Gopher(engine.tokenizer, 8, 2))
    for language, is_asked in (("go", True), ("typescript", False), ("", False)):
        request = replace(asked(CODE, 200), language=language)
        assert (completer.complete(request, NEVER).text == "func") is is_asked
        assert completer.prepare(Upcoming(request), NEVER) is not is_asked
        assert completer.prepare(Upcoming(Request(URI, CODE, 0, language=language), "opened"), NEVER) is not is_asked
    assert completer.notice("go") is None and "Python and Go only" in (completer.notice("typescript") or "")
    explained = completer.explain(replace(asked(CODE, 200), language="go"))
    assert (explained["reason"], explained["notice"]) == (None, None)


def test_an_explanation_names_the_languages_and_the_remedy(made: Make) -> None:
    completer, _ = made()
    told = completer.explain(asked(CODE, 200))
    notice = completer.notice("typescript")
    assert notice is not None and "Python only" in notice and "knows TypeScript" in notice and "'model'" in notice
    assert told["notice"] == notice and told["prompt"] == "" and told["reason"] is None
    assert completer.explain(replace(asked(CODE, 200), language="python"))["notice"] is None


def test_the_embedded_model_knows_python_and_a_setting_brings_the_others_back() -> None:
    for wanted, known in (((), ["python"]), (("*",), ["*"]), (("python", "go"), ["python", "go"])):
        completer = completer_of(EMBEDDED, model="", model_languages=wanted)
        assert completer.describe()["languages"] == known
        assert (completer.notice("go") is None) == (len(wanted) > 0)
        completer.close(HANG)


# Warm equals cold: what was asked before changes nothing but what is typed through

Step = tuple[str, Any]
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("type"), st.sampled_from(["sel", "return ", "foo(", ")", "é", "\n    ", "value", "= "])),
    st.tuples(st.just("paste"), st.integers(0, len(LINES) - 1)),
    st.tuples(st.just("delete"), st.integers(1, 40)),
    st.tuples(st.just("jump"), st.floats(0, 1)),
    st.tuples(st.just("through"), st.integers(1, 9)),
    st.tuples(st.just("accept"), st.none()),
    st.tuples(st.just("beside"), st.none()),
    st.tuples(st.just("key"), st.none()),
)


@settings(max_examples=60)
@given(history=st.lists(steps, min_size=1, max_size=14), lines=st.sampled_from([0, 12, 40]))
def test_a_warm_answer_is_the_cold_answer(made: Make, history: list[Step], lines: int) -> None:
    warm, _ = made()
    text, beside = "".join(LINES[:lines]), False
    cursor, answer = len(text), Answer("")
    for name, what in history:
        if name == "accept":
            after = accepted(asked(text, cursor), answer.text)
            text, cursor = after.text, after.cursor
        elif name == "delete":
            start = max(0, cursor - what)
            text, cursor = text[:start] + text[cursor:], start
        elif name == "jump":
            cursor = round(what * len(text))
        elif name == "beside":
            beside = not beside
        elif name != "key":
            added = {"type": str(what), "paste": LINES[what] if name == "paste" else "", "through": ""}[name]
            added = answer.text[:what] if name == "through" else added
            text, cursor = text[:cursor] + added + text[cursor:], cursor + len(added)
        request = asked(text, cursor, explicit=name == "key", others=(CODE,) * beside)
        left = None if request.explicit else warm._opened(URI)[1].suggestions.ask(request).left
        answer, cold = warm.complete(request, NEVER), made()[0].complete(request, NEVER)
        if left:
            assert (answer.text, answer.reason) == (left.text, None), "typing through a suggestion goes on with it"
        else:
            assert (answer.text, answer.reason, answer.confidence) == (cold.text, cold.reason, cold.confidence)
            assert not answer.text or len(answer.text) >= SHORTEST
    assert not any(document.unsaved for document in warm._documents.values())


@pytest.mark.parametrize(("limit", "expected"), [(4, " first second"), (6, " first second third")])
def test_a_phrase_without_an_end_is_whole_words_of_so_many_tokens(limit: int, expected: str) -> None:
    tokenizer = Tokenizer(EMBEDDED / "tokenizer.json")
    history = tokenizer.encode(" ".join(["first second third"] * 40))
    phrase = Phrases(tokenizer).generate(history, b"", ENDLESS, limit, 0.1, NEVER)
    assert phrase.text == expected and phrase.new_tokens < limit


def test_settings_name_the_languages_again_after_a_change() -> None:
    assert Settings(model_languages=("go",)).of_model != Settings().of_model
