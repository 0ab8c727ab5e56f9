"""`efim-ls complete`, run as a user runs it: the text on stdout, and on stderr what a user should know about it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from efim_ls.commands.complete import shown_while_typing
from tests.editors.drivers.shapes import BEGINNING, NEXT_PART, OPEN_ENDED, SHAPES
from tests.lsp.wire import ENV
from tests.processes import command_line

AREA = "def {}(width, height):\n    return width * height\n\n\n"
SURE = AREA.format("area") + AREA.format("size") + AREA.format("face") + "def edge(width, height):\n    return wid"
PROSE = "# Title\n\nSome words here.\n"  # the model has nothing to say before the third line


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return command_line.run("efim_ls", "complete", *arguments, env=ENV)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "page.py").write_text(SURE, encoding="utf-8")
    return tmp_path / "page.py"


def test_a_sure_suggestion_comes_without_a_word(page: Path) -> None:
    done = run(f"{page}:14:15")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("th * height")


def test_a_place_beyond_the_text_is_clamped_and_said(page: Path) -> None:
    done = run(f"{page}:99:1")
    assert done.returncode == 0 and done.stdout.startswith("th * height")
    assert done.stderr == f"efim-ls: {page} has no text at 99:1: completing at 14:15 instead\n"


def test_an_empty_answer_is_explained_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text(PROSE, encoding="utf-8")
    done = run(f"{tmp_path / 'notes'}:2:1")
    assert (done.returncode, done.stdout) == (0, "")
    told = "the model expects no more text here: keep typing to get the next suggestion"
    assert done.stderr == f"efim-ls: no suggestion: {told}\n"
    answer = json.loads(run(f"{tmp_path / 'notes'}:2:1", "--json").stdout)
    assert (answer["text"], answer["reason"], answer["why"]) == ("", "empty", told)


def test_it_says_where_editors_would_cut_the_suggestion(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(SHAPES + OPEN_ENDED, encoding="utf-8")
    done = run(f"{tmp_path / 'page.py'}:99:1")
    assert done.returncode == 0 and done.stdout.startswith(BEGINNING + NEXT_PART)
    told = "efim-ls: while you type, editors show this up to '(.+)', since the rest is too unlikely .*"
    cut = re.fullmatch(told, done.stderr.splitlines()[-1])
    assert cut is not None and BEGINNING.startswith(cut[1])


def index(folder: Path, *arguments: str) -> None:
    command_line.run("efim_ls", "index", str(folder), *arguments, env=ENV).check_returncode()


def test_it_knows_an_indexed_repository_but_not_the_file_as_it_is_on_disk(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    kept = "import os\n\n\ndef calibrate_flux(sensor, window):\n    return sensor.flux_capacitance_of(window)\n"
    (tmp_path / "flux.py").write_text(kept, encoding="utf-8")
    (tmp_path / "page.py").write_text("def again(sensor, window):\n    return sensor.flux_cap", encoding="utf-8")
    done = run(f"{tmp_path / 'page.py'}:2:99", "--json")
    assert "acitance_of" not in json.loads(done.stdout)["text"]
    index(tmp_path)
    done = run(f"{tmp_path / 'page.py'}:2:99", "--json")
    assert json.loads(done.stdout)["text"].startswith("acitance_of(window)")
    (tmp_path / "flux.py").unlink()
    done = run(f"{tmp_path / 'page.py'}:2:99", "--json")
    assert "acitance_of" not in json.loads(done.stdout)["text"]
    index(tmp_path, "--clear")


def test_it_warns_of_a_suggestion_that_editors_would_hide(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text("value = ", encoding="utf-8")  # nothing tells what comes next
    done = run(f"{tmp_path / 'page.py'}:1:9")
    assert done.returncode == 0 and done.stdout.strip()
    assert done.stderr.startswith("efim-ls: while you type, editors show nothing here: the model is only ")
    assert done.stderr.count("\n") == 1 and "'suggestions'" in done.stderr


@pytest.mark.parametrize(
    ("text", "shown", "why", "told"),
    [
        ("th * height", "th * height", None, ""),
        ("th * height", "th", None, "show this up to 'th',"),
        ("th * height", "", "it is too unlikely", "show nothing here: it is too unlikely"),
        ("nknown", "nknown): value is Role", None, "show 'nknown): value is Role' in place of this"),
    ],
)
def test_what_editors_show_is_compared_with_what_is_printed(
    text: str, shown: str, why: str | None, told: str
) -> None:
    said = shown_while_typing(text, {"text": shown, "why": why})
    assert told in said and bool(told) == bool(said)
