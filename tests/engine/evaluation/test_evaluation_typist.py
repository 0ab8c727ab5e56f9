"""The embedded model, asked at every key of held-out lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.typist.keys import TypedKey, asking, key_at, type_line
from efim_lab.gate.evaluation.typist.levels import at_level
from efim_lab.gate.evaluation.typist.lines import TypedLine, choose_lines
from efim_lab.gate.evaluation.typist.measurement import TypingOptions, measure
from efim_lab.gate.evaluation.typist.report import table
from efim_lab.gate.evaluation.typist.typists import TYPISTS, Typist, visits
from efim_ls.completion.completer import Completer
from efim_ls.settings import Settings
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.models import CODE

DOCUMENTS = [CodeDocument("p/a.py", CODE), CodeDocument("p/b.py", CODE[: len(CODE) // 2])]
OTHER = (0.0, 0.05, 0.5, 0.8)  # levels
OTHERS = (DOCUMENTS[1],)


@pytest.fixture
def completer() -> Iterator[Completer]:
    loaded = Completer.load(Settings(persist=False), lambda _, __: None)
    yield loaded
    loaded.close(0)


def take(completer: Completer, line: TypedLine, least: float, typist: Typist) -> Iterator[TypedKey]:
    """Type a line and take suggestions for real: the server is not asked at keys that are skipped."""
    ask, cursor = asking(completer, least, "taken"), line.start
    while cursor < line.end:
        key = key_at("server", line, cursor, ask(line, cursor, OTHERS))
        yield key
        cursor += typist(key).characters or 1


@pytest.mark.parametrize("least", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("name", ["whole", "words"])
def test_typing_by_hand_tells_what_a_typist_sees_who_takes_suggestions(
    completer: Completer, name: str, least: float
) -> None:
    taken = 0
    for line in choose_lines(DOCUMENTS[:1], 6):
        by_hand = type_line("server", line, OTHERS, asking(completer, least))
        told = visits(by_hand, TYPISTS[name])
        seen = list(take(completer, line, least, TYPISTS[name]))
        assert [(visit.key.column, visit.key.shown, visit.key.hidden) for visit in told] == [
            (key.column, key.shown, key.hidden) for key in seen
        ]
        taken += sum(visit.completed > 0 for visit in told)
    assert taken > 2


def test_what_another_level_would_show_is_what_the_server_shows_there(completer: Completer) -> None:
    different = 0
    for line in choose_lines(DOCUMENTS[:1], 6):
        asked = {
            least: type_line("server", line, (), asking(completer, least, str(least))) for least in (0.2, *OTHER)
        }
        for least in OTHER:
            told = [at_level(key, least) for key in asked[0.2]]
            assert [(key.shown, key.hidden, key.right) for key in told] == [
                (key.shown, key.hidden, key.right) for key in asked[least]
            ]
            different += told != asked[0.2]
    assert different > 6


def test_the_server_and_the_heuristic_are_typed_alone_and_with_other_files_open() -> None:
    steps: list[tuple[str, int, int]] = []
    windows = [CodeDocument(each.path, each.text.replace("\n", "\r\n")) for each in DOCUMENTS]

    options = TypingOptions(3, (0, 1))
    report, lines = measure(EMBEDDED, windows, 4, options, lambda *step: steps.append(step))
    keys = [key for line in lines for key in line]
    assert steps == [
        *(("embedded, in whole files", done, 4) for done in range(5)),
        *(("embedded, typed", done, 3) for done in range(4)),
    ]
    assert (report.lines, report.files, report.places) == (3, 2, 4)
    alone, beside = ("heuristic", "server", "server, repository"), ", 1 files open"
    arms = [*alone, *(f"{arm}{beside}" for arm in alone)]
    assert list(report.arms) == list(report.whole_files) == arms
    assert [sum(key.arm == arm for key in keys) for arm in arms] == [report.keys] * 6
    shown = {arm: [key.shown for key in keys if key.arm == arm] for arm in arms}
    assert shown["heuristic"] != shown["heuristic, 1 files open"] and shown["server"] != shown["server, 1 files open"]
    assert shown["server, repository"] != shown["server"]
    assert shown["server, repository, 1 files open"] == shown["server, 1 files open"]  # the only other file is open
    server = report.arms["server"]
    assert sum(server.kinds[kind]["by hand"].keys for kind in server.kinds) == report.keys
    assert server.typists["whole"].saved and server.typists["whole"].saved.value > 0
    assert server.languages.keys() == {"python"}
    assert measure(EMBEDDED, windows, 4, options, lambda *_: None) == (report, lines)


def test_a_key_has_what_the_model_would_go_on_with(completer: Completer) -> None:
    kept, cut = 0, 0
    for line in choose_lines(DOCUMENTS[:1], 8):
        for key in type_line("server", line, (), asking(completer, 0.2)):
            candidate = "".join(text for text, _ in key.tokens)
            assert all(0 <= share <= 1 for _, share in key.tokens)
            if key.shown:
                kept += candidate.startswith(key.shown)
                cut += len(candidate) > len(key.shown)
    assert kept > 20 and cut > 5


def test_nothing_but_lines_is_asked_for_if_only_these_are_typed() -> None:
    steps: list[str] = []
    options = TypingOptions(2, (0,), only_typing=True)
    report, lines = measure(EMBEDDED, DOCUMENTS, 6, options, lambda what, *_: steps.append(what))
    assert (report.lines, report.places, len(lines)) == (2, 0, 6)
    assert report.whole_files["server"].exact is None
    assert "cursors in whole files" not in table([report]) and "What knowing the repository" in table([report])


def test_data_without_a_line_to_type_is_an_error() -> None:
    with pytest.raises(WorkError, match="no line of at most 200 characters"):
        measure(EMBEDDED, [CodeDocument("a.py", "\n\n" + "x" * 201)], 4, TypingOptions(), lambda *_: None)
