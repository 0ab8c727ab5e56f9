"""Recomputed tokens with excerpts of other files, in this server's layout and in those of other tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from efim_lab.gate.replay.report import KeystrokeRow
from efim_lab.gate.replay.trace import Event, Patch, Trace
from efim_lab.studies.layouts.layouts import LAYOUTS, count_layouts
from efim_ls.completion.planning.window import Budget
from model_runtime.checkpoint.embedded import EMBEDDED

GOLDEN = Path(__file__).parents[2] / "golden" / "replays" / "layouts.json"
FILES = {
    "store.py": "def open_store(path):\n    return Store(path)\n\n\n" * 9,
    "area.py": "def area(width, height):\n    return width * height\n\n\n" * 9,
}
TYPED = "def volume(width, height, depth):\n    return area(width, height) * depth\n"
BUDGET = Budget(head=120, tail=40)


def session() -> Trace:
    """Two places typed in turn, with a pause before each."""
    start = "import area\n\n\n" + "x = 1\n" * 12
    events, time = list[Event](), 0.0
    for at, text in ((14, TYPED), (len(start) + len(TYPED), TYPED.upper()), (14 + len(TYPED), "y = 2\n")):
        time += 5.0
        for number, letter in enumerate(text):
            events.append(Event(time := time + 0.1, [Patch(at + number, 0, letter)]))
    return Trace(start, events)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[KeystrokeRow]]:
    folder = tmp_path_factory.mktemp("other")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    return dict(count_layouts(session(), BUDGET, EMBEDDED, folder))


def test_each_layout_costs_what_it_did(counted: dict[str, list[KeystrokeRow]]) -> None:
    sums = {
        name: {
            "prompt": sum(row.prompt_tokens for row in rows),
            "waited for": sum(row.recomputed for row in rows),
            "ahead": sum(row.ahead for row in rows),
        }
        for name, rows in counted.items()
    }
    assert sums == json.loads(GOLDEN.read_text("utf-8"))


def test_excerpts_cost_a_keystroke_in_a_frame_nothing(counted: dict[str, list[KeystrokeRow]]) -> None:
    kept = [row.recomputed for row in counted["efim"] if not row.reanchored]
    assert max(kept) <= 5
    waited = {name: sum(row.recomputed for row in rows) for name, rows in counted.items()}
    assert min(waited, key=lambda name: waited[name]) == "efim"


def test_every_layout_shows_as_much(counted: dict[str, list[KeystrokeRow]]) -> None:
    assert counted.keys() == LAYOUTS.keys()
    means = [sum(row.prompt_tokens for row in rows) / len(rows) for rows in counted.values()]
    assert max(means) < 1.2 * min(means)


def test_the_recordings_own_text_stands_in_for_a_folder() -> None:
    rows = dict(count_layouts(session(), BUDGET, EMBEDDED, None))
    assert all(row.prompt_tokens > 20 for row in rows["efim"])
