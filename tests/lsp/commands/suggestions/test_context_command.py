"""`efim-ls context`, run as a user runs it, and what it prints of an explanation."""

from __future__ import annotations

import json
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from efim_ls.commands.context import page
from efim_ls.completion.suggestions.explanation_page import sections
from tests.editors.drivers.shapes import BEGINNING, NEXT_PART, OPEN_ENDED, SHAPES
from tests.explanations import EXPLAINED, FOLDER
from tests.lsp.wire import ENV, ROOT
from tests.processes import command_line

GOLDEN = ROOT / "tests" / "golden" / "commands"


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return command_line.run("efim_ls", "context", *arguments, env={**ENV, "COLUMNS": "100"}, folder=folder)


def printed(explained: dict[str, Any]) -> str:
    """The page at 80 columns, without the blanks at the ends of its lines."""
    console = Console(file=StringIO(), width=80)
    for each in page(sections(explained, f"file://{FOLDER}/a.py", 3, 5), FOLDER):
        console.print(each, markup=False, highlight=False)
    assert isinstance(console.file, StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


def test_an_explanation_is_printed_for_a_terminal() -> None:
    assert printed(EXPLAINED) == (GOLDEN / "context.txt").read_text("utf-8")


@pytest.fixture
def place(tmp_path: Path) -> str:
    (tmp_path / "page.py").write_text(SHAPES + OPEN_ENDED, encoding="utf-8")
    return f"{tmp_path / 'page.py'}:99:1"


def test_it_says_what_the_prompt_cost_and_what_editors_hide(place: str) -> None:
    done = run(place)
    assert done.returncode == 0
    assert "recomputed" in done.stdout and "<|fim_prefix|>" in done.stdout
    _, _, table = done.stdout.partition("\n word ")
    words = [line.split()[0] for line in table.partition("\n\n")[0].splitlines()[2:]]
    hides = words.index("hidden:")
    assert hides and "".join(words[:hides]) in BEGINNING
    assert "".join(words[:hides] + words[hides + 1 :]).startswith((BEGINNING + NEXT_PART).replace(" ", ""))


def test_it_prints_what_efim_explain_answers(place: str) -> None:
    done = run(place, "--json")
    told = json.loads(done.stdout)
    assert "".join(each["text"] for each in told["parts"]) == told["prompt"]
    assert sum(each["tokens"] for each in told["parts"]) == told["spent"]["recomputed"]
    suggestion = told["suggestion"]
    assert "".join(each["text"] for each in suggestion["words"]) == suggestion["shown"] + suggestion["hidden"]
    assert BEGINNING.startswith(suggestion["shown"]) and suggestion["shown"]
    assert (told["reason"], told["why"]) == (None, None)
    assert told["sections"][0]["title"] == "Suggestion at page.py:47:10"


def test_it_names_the_files_and_lines_that_a_word_comes_from(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "devices").mkdir()
    kept = "import os\n\n\ndef calibrate_flux(sensor, window):\n    return sensor.flux_capacitance_of(window)\n"
    (tmp_path / "devices" / "flux.py").write_text(kept, encoding="utf-8")
    (tmp_path / "page.py").write_text("def again(sensor, window):\n    return sensor.flux_cap", encoding="utf-8")
    done = run(f"{tmp_path / 'page.py'}:2:99", "--json")
    words = json.loads(done.stdout)["suggestion"]["words"]
    assert words[0]["text"] == "acitance_of" and words[0]["repository"] > 0.5
    assert words[0]["from"][0]["path"] == str(tmp_path / "devices" / "flux.py")
    assert words[0]["from"][0]["line"] == 5
    assert f"{Path('devices', 'flux.py')}:5" in run("page.py:2:99", folder=tmp_path).stdout


def test_a_place_without_a_line_is_refused(tmp_path: Path) -> None:
    done = run(str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"efim-ls: {tmp_path} is not a position: write FILE:LINE:COLUMN, both counted from 1\n"
