"""Reuse of moved text through a completer: what it counts, what it saves, and what becomes of it at rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from efim_ls.completion.completer import Completer
from efim_ls.request import Answer, Request, Upcoming
from model_runtime.cancel import NEVER
from model_runtime.kv.pool import FrameId
from model_runtime.sequence_key import SequenceKey
from tests.engine.persistence import arena_of
from tests.models import CODE, Tiny, make
from tests.sized import Sized
from tests.waiting import HANG

A = "file:///a.py"
OTHER_LAYOUT = CODE.replace('encoding="utf-8"', "encoding='utf-8'").replace('"""One entry', '"""  One entry')
OTHER_BRANCH = CODE.replace("import os\n", "import os\nimport sys\n\nROOT = Path.home()\n")

Start = Callable[..., Completer]


@pytest.fixture(scope="module")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("long"), Tiny("efim", context=2000))


@pytest.fixture
def start(long_folder: Path, tmp_path: Path) -> Start:
    def load(**wanted: object) -> Completer:
        settings = Sized(model=str(long_folder), head_tokens=1200, max_new_tokens=8, weights="int8")
        settings = replace(settings, cache_folder=str(tmp_path))
        return Completer.load(replace(settings, **wanted), lambda *_: None)

    return load


def request(text: str) -> Request:
    return Request(A, text, text.index("name, value = line"), explicit=True)


def ask(completer: Completer, text: str) -> Answer:
    return completer.complete(request(text), NEVER)


def assert_same_numbers(completer: Completer, frame: int, other: Completer, its: int) -> None:
    """Compare what two completers hold for a frame; a compiled decoder gives the same bits."""
    mine, theirs = arena_of(completer, FrameId(A, frame)), arena_of(other, FrameId(A, its))
    length = min(mine.common(SequenceKey(theirs.ids)), theirs.length)
    close = 0 if completer.describe()["decoder"] == "compiled" else 1e-4  # torch sums in another order
    assert length > 300
    assert np.abs(mine.k - theirs.k)[:, :, :length].max() <= close
    assert np.abs(mine.v - theirs.v)[:, :, :length].max() <= close


@pytest.mark.parametrize("text", [OTHER_LAYOUT, OTHER_BRANCH])
@pytest.mark.parametrize("name", ["moved_text", "moved_text_carefully"])
def test_after_a_formatter_or_a_branch_most_tokens_are_reused(start: Start, text: str, name: str) -> None:
    completer, exact = start(approximations=(name,), persist=False), start(persist=False)
    for each in (completer, exact):
        ask(each, CODE)
    costs, other = ask(completer, text).costs, ask(exact, text).costs
    assert other.approximate == 0 and other.recomputed > 0.7 * (other.recomputed + other.reused)
    assert costs.approximate > 0 and costs.reused >= 0.7 * (costs.recomputed + costs.reused)


def test_at_rest_what_was_composed_is_replaced_by_what_is_exact(start: Start) -> None:
    completer, exact = start(approximations=("moved_text_carefully",), persist=False), start(persist=False)
    ask(completer, CODE)
    assert ask(completer, OTHER_BRANCH).costs.approximate > 0
    assert completer.prepare(Upcoming(request(OTHER_BRANCH)), NEVER)
    again, cold = ask(completer, OTHER_BRANCH), ask(exact, OTHER_BRANCH)
    assert (again.costs.approximate, again.costs.recomputed, again.text) == (0, 0, cold.text)
    assert_same_numbers(completer, 1, exact, 0)


def test_nothing_composed_is_stored(start: Start) -> None:
    first = start(approximations=("moved_text",))
    ask(first, CODE)
    assert ask(first, OTHER_BRANCH).costs.approximate > 0
    assert first.save(A, NEVER)
    first.close(HANG)
    second = start()
    exact = start(persist=False)
    warm, cold = ask(second, OTHER_BRANCH), ask(exact, OTHER_BRANCH)
    assert warm.costs.approximate == 0 and warm.costs.fetched <= 64  # up to the first row that was composed
    assert warm.text == cold.text
    assert_same_numbers(second, 1, exact, 0)
    second.close(HANG)


def test_the_description_says_what_composes_and_why(start: Start) -> None:
    on, off = start(approximations=("moved_text",), persist=False).describe(), start(persist=False).describe()
    assert (on["options"], off["options"]) == ("moved_text is on", "")
