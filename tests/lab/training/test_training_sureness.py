"""Logistic regressions, each package judged by weights of the others, and what a level shows of recorded keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.typist.lines import whole_text
from efim_lab.workshop.training.sureness import regression
from efim_lab.workshop.training.sureness.fitting import Fitted, Judged, fit_both, shown_at
from efim_lab.workshop.training.sureness.recording import RecordedKey, recorded
from efim_lab.workshop.training.sureness.report import sureness_of
from efim_ls.completion.filters.place import place_of
from efim_ls.completion.suggestions.explanation import AnswerOrigin
from efim_ls.completion.suggestions.levels import LEVELS
from efim_ls.completion.suggestions.place_kind import spot_of
from efim_ls.completion.suggestions.sure import sure_part
from efim_ls.completion.suggestions.sureness import SURENESS_FILE, embedded_sureness, read_sureness
from efim_ls.request import Preset, Request
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.unit.likelihoods import suggestion

KNOWN = np.array([-0.5, 1.5, -2.0])


def drawn(rows: int) -> tuple[regression.Floats, regression.Floats]:
    rng = np.random.default_rng(0)
    inputs = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    return inputs, (rng.random(rows) < regression.probabilities(inputs, KNOWN)).astype(float)


def test_known_weights_are_found_again() -> None:
    assert regression.fit(*drawn(20_000)) == pytest.approx(KNOWN, abs=0.1)


def test_a_package_is_judged_by_the_others() -> None:
    inputs = np.ones((4, 1))
    chances = regression.cross_validated(inputs, np.array([1.0, 1.0, 0.0, 0.0]), ["a", "a", "b", "b"])
    assert (chances[:2] < 0.01).all() and (chances[2:] > 0.99).all()


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    assert regression.area(np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.1, 0.2, 0.3, 0.3])) == 0.625


def test_what_is_written_is_what_the_server_reads(tmp_path: Path) -> None:
    shipped = embedded_sureness()
    fitted = sureness_of(Fitted(np.array(shipped.guess), np.array(shipped.word), 0.0, 0.0, {}))
    (tmp_path / SURENESS_FILE).write_text(fitted.to_json(), encoding="utf-8")
    assert read_sureness(tmp_path) == fitted == shipped
    assert fitted.to_json() == (EMBEDDED / SURENESS_FILE).read_text("utf-8")


def test_one_package_is_too_few() -> None:
    with pytest.raises(WorkError, match="two or more"):
        fit_both([])


TEXT = whole_text(
    CodeDocument("shop/a.py", "width = 1\nprint(width, width)\nwidth += 1\nx = width + self.width[12]\n")
)
LAST_LINE = [cursor for cursor in TEXT.cursors if cursor > TEXT.document.text.index("x =")]
SUGGESTED = ("th", "th) + 1", "get(shape)", " = ", "return", "self.width\n    x = 1", "", "12", " + wid", ")")


def judged(key: RecordedKey) -> Judged:
    """Judge by the weights that are shipped, as a fit does by those of other packages."""
    sure = embedded_sureness().of_guess(key.facts) if key.facts else 0.0
    rivals = key.words if not (key.facts and key.facts.agrees) else ()
    words = ((embedded_sureness().of_word(facts._replace(rival=sure)), rest) for rest, facts in rivals)
    return Judged(key, sure, max(words, default=(0.0, "")))


@given(
    cursor=st.sampled_from(LAST_LINE),
    text=st.sampled_from(SUGGESTED),
    chances=st.lists(st.sampled_from([0.05, 0.5, 0.7, 0.9, 0.99]), min_size=1, max_size=3),
    instead=st.sampled_from(["th", "dth", "~"]),
    typed=st.integers(0, 2),
    refuted=st.booleans(),
)
def test_what_a_level_shows_of_recorded_keys_is_what_the_server_shows(
    cursor: int, text: str, chances: list[float], instead: str, typed: int, refuted: bool
) -> None:
    request = Request("", TEXT.text_at(cursor), cursor, language="python")
    stub = spot_of(place_of(request)).stub
    typed = min(typed, len(stub))  # letters of the word at the cursor that the suggestion has said
    likelihood = suggestion(
        stub[len(stub) - typed :] + text, *chances, stub=stub[: len(stub) - typed], instead=instead
    )
    key = recorded(TEXT, request, AnswerOrigin(likelihood, typed, None, refuted))
    presets: list[Preset] = ["more", "balanced", "sure"]
    for preset in presets:
        part = sure_part(likelihood, typed, place_of(request), preset, embedded_sureness(), refuted=refuted)
        assert shown_at(judged(key), LEVELS[preset]) == part.shown
