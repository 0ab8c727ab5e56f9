"""Weights fitted to lines that were typed with a model: against the gate's own counting, and by known odds."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.ghosts import counting
from efim_lab.gate.evaluation.typist.keys import key_at
from efim_lab.gate.evaluation.typist.lines import TypedLine
from efim_ls.access.rules import Rules
from efim_ls.commands.calibration.fitting import LEVEL, MOST_WRONG, fit, ghosts, slope_and_shift
from efim_ls.commands.calibration.lines import BLOCK, BLOCKS_OF_A_FILE, Key, Line, choose_blocks, type_line
from efim_ls.completion.completer import Completer
from efim_ls.completion.models.kinds import kind_of, no_progress
from efim_ls.completion.suggestions.sure import sure_part
from efim_ls.completion.suggestions.sureness import Sureness, calibrated_path, embedded_sureness, logit
from efim_ls.request import Answer
from efim_ls.settings import DEFAULTS
from tests.models import CODE, make
from tests.sized import Sized

SETTINGS = Sized(max_new_tokens=8, head_tokens=120, tail_tokens=40, suggestions=0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with code that the embedded model finishes rather well."""
    home = tmp_path_factory.mktemp("code")
    for name, word in (("records", "record"), ("entries", "entry")):
        (home / f"{name}.py").write_text(CODE.replace("record", word), "utf-8")
    return home


@pytest.fixture(scope="module")
def typed(folder: Path) -> list[tuple[Line, list[Key]]]:
    completer = Completer.load(DEFAULTS, no_progress)
    lines = [line for block in blocks(folder) for line in block]
    return [(line, type_line(completer, line)) for line in lines]


def blocks(folder: Path, *languages: str) -> list[list[Line]]:
    return list(choose_blocks(folder, Rules(DEFAULTS, [folder.as_uri()]), languages))


def test_files_take_turns_and_lines_follow_each_other(folder: Path) -> None:
    chosen = blocks(folder, "python")
    assert chosen == blocks(folder)
    assert len(chosen) == 2 * BLOCKS_OF_A_FILE and len({block[0].path for block in chosen[:2]}) == 2
    for block in chosen:
        assert len(block) <= BLOCK and len({line.path for line in block}) == 1
        for line, following in zip(block, block[1:], strict=False):
            assert not line.text[line.end : following.start].strip()
    assert blocks(folder, "go") == []


def test_a_line_is_typed_with_the_lines_below_in_place(folder: Path) -> None:
    line = blocks(folder)[0][0]
    asked = line.request(line.start + 3)
    assert asked.text[: asked.cursor] == line.text[: line.start + 3]
    assert asked.text[asked.cursor :] == line.text[line.end :].removeprefix(line.text[line.end :].split("\n")[0])


def test_suggestions_are_counted_as_the_gate_counts_them(typed: list[tuple[Line, list[Key]]]) -> None:
    by, expected = embedded_sureness(), list[counting.Ghost]()
    for line, keys in typed:
        document = CodeDocument(line.path, line.text)
        row = TypedLine(document, 0, line.start, line.end, len(line.text[: line.end]))
        shown = [
            sure_part(key.origin.likelihood, key.origin.start, key.place, LEVEL, by, True, key.origin.refuted).shown
            if key.origin
            else ""
            for key in keys
        ]
        cursors = range(line.start, line.end)
        as_keys = [key_at("", row, at, Answer(text)) for at, text in zip(cursors, shown, strict=True)]
        expected += counting.ghosts(as_keys)
    found = ghosts([keys for _, keys in typed], by)
    assert found.new == len(expected) > 20
    assert found.wrong == sum(ghost.kind == "wrong" for ghost in expected)


def test_a_model_that_is_always_right_is_shown_more_and_one_that_is_always_wrong_hardly(
    typed: list[tuple[Line, list[Key]]],
) -> None:
    by, lines = embedded_sureness(), [keys for _, keys in typed]

    def ending(key: Key, right: bool) -> Key:
        said = key.origin.likelihood.text[key.origin.start :] if key.origin else ""
        return key._replace(after=said or "?" if right else "?")

    is_right = [[ending(key, True) for key in line] for line in lines]
    is_wrong = [[ending(key, False) for key in line] for line in lines]
    assert ghosts(is_right, fit(is_right, by)).new > ghosts(is_right, by).new
    calmed = ghosts(is_wrong, fit(is_wrong, by))
    assert calmed.new < ghosts(is_wrong, by).new / 4
    assert calmed.wrong_share <= MOST_WRONG or calmed.new < 30


@given(st.floats(0.5, 2), st.floats(-2, 2), st.integers(0, 99))
@example(1.0, 0.0, 0)
def test_slope_and_shift_are_found_in_many_guesses(slope: float, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.02, 0.98, 4000)
    chances = 1 / (1 + np.exp(-(slope * np.log(sure / (1 - sure)) + shift)))
    guesses = [(float(p), bool(r)) for p, r in zip(sure, rng.random(4000) < chances, strict=True)]
    found = slope_and_shift(guesses)
    assert abs(found[0] - slope) < 0.2 and abs(found[1] - shift) < 0.25


def test_without_guesses_nothing_changes() -> None:
    assert fit([[]], embedded_sureness()) == embedded_sureness()
    assert slope_and_shift([(0.9, True)])[0] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("size", [-1e300, 1e300])
def test_weights_of_any_size_are_no_error(size: float, typed: list[tuple[Line, list[Key]]]) -> None:
    zero = embedded_sureness().scaled(0.0, size)
    assert ghosts([keys for _, keys in typed], zero).new >= 0


@given(st.floats(0.01, 0.99), st.floats(0.1, 3), st.floats(-3, 3))
def test_scaled_weights_scale_the_logit(model: float, slope: float, shift: float) -> None:
    weights = Sureness((0.3, 0.8), (1.0,))
    bias, factor = weights.scaled(slope, shift).guess
    expected = slope * (0.3 + 0.8 * logit(model)) + shift
    assert bias + factor * logit(model) == pytest.approx(expected)


def opened(model: Path, cache: Path) -> tuple[Sureness, str]:
    wanted = Sized(model=str(model), max_new_tokens=4, cache_folder=str(cache))
    found = kind_of(wanted).open(wanted, no_progress)
    found.close(0, write=False)
    return found.sureness, found.model.digest


def test_what_was_fitted_belongs_to_one_model_and_is_ignored_once_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = make(tmp_path / "one"), make(tmp_path / "other")
    (other / "tokenizer.json").write_bytes((other / "tokenizer.json").read_bytes() + b"\n")
    cache, fitted = tmp_path / "cache", embedded_sureness().scaled(0.5, 1.0)
    before, digest = opened(one, cache)
    assert before == embedded_sureness()
    path = calibrated_path(cache, digest)
    path.parent.mkdir(parents=True)
    path.write_text(fitted.to_json(), "utf-8")
    assert opened(one, cache)[0] == fitted
    assert opened(other, cache)[0] == embedded_sureness()
    for damaged in ("{", json.dumps({"guess": {}, "word": {}}), ""):
        path.write_text(damaged, "utf-8")
        with caplog.at_level(logging.WARNING):
            assert opened(one, cache)[0] == embedded_sureness()
        assert "run efim-ls calibrate again" in caplog.text
