"""`efim-ls stats`, run as a user runs it, on what servers have counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from efim_ls.usage.counters import STATISTICS, Count, add_counts
from tests.lsp.wire import ENV, ROOT, Editor, started
from tests.processes import command_line
from tests.waiting import HANG

GOLDEN = ROOT / "tests" / "golden" / "commands"
NOTHING_OF_THE_USER = (b"more", b"page", b"file:", b"say")


def run(*arguments: str) -> tuple[int, str, str]:
    done = command_line.run("efim_ls", "stats", *arguments, env={**ENV, "COLUMNS": "80"})
    return done.returncode, done.stdout, done.stderr


def shown(folder: Path) -> str:
    """The table at 80 columns, without the blanks at the ends of its lines."""
    code, printed, complaints = run("--folder", str(folder))
    assert (code, complaints) == (0, "")
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def day(ago: int) -> str:
    return (date.today() - timedelta(ago)).isoformat()


def counts(shown: int, accepted: int, in_part: int, characters: int, kept: int) -> dict[Count, int]:
    return {
        "shown": shown, "accepted": accepted, "partially_accepted": in_part, "taken": accepted + in_part,
        "characters_accepted": characters, "characters_kept": kept,
    }  # fmt: skip


def read(folder: Path) -> dict[str, Any]:
    code, printed, complaints = run("--folder", str(folder), "--json")
    assert (code, complaints) == (0, "")
    return json.loads(printed)


async def accept(editor: Editor, language: str = "python") -> None:
    """Take a suggestion, and remove half of it again."""
    page = editor.open("# say more\n‸", language=language)
    item = await page.item()
    assert item is not None
    page.type("more")
    command = {"command": item["command"]["command"], "arguments": item["command"]["arguments"]}
    await editor.ask("workspace/executeCommand", command)
    page.edit(page.cursor - 2, page.cursor, "")


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """What two servers have counted, one after the other; what they wrote as they ended."""
    for languages in (["python"], ["python", "[red]rust"]):
        async with started(settings={"cache_folder": str(tmp_path)}) as editor:
            for language in languages:
                await accept(editor, language)
            await editor.open("# say more\n‸").item()
    return tmp_path


async def test_json_has_all_counts_of_periods_and_languages(folder: Path) -> None:
    found = read(folder)
    assert list(found) == ["today", "last 7 days", "last 30 days", "all"]
    assert all(period == found["all"] for period in found.values())
    assert found["all"]["python"] == {
        "requests": 4, "recomputed": 20, "reused": 28, "offered": 4, "shown": 4, "accepted": 2,
        "partially_accepted": 0, "taken": 2, "characters_accepted": 8, "characters_kept": 4,
        "edits_shown": 0, "edits_accepted": 0, "edits_kept": 0,
    }  # fmt: skip
    assert found["all"]["all languages"]["accepted"] == 3
    assert list(found["all"]) == ["all languages", "python", "[red]rust"]


def test_next_edits_have_a_table_of_their_own_once_one_was_shown(tmp_path: Path) -> None:
    add_counts(tmp_path / STATISTICS, {(day(0), "python"): counts(9, 2, 1, 90, 45)})
    assert "next edits" not in shown(tmp_path)
    edits: dict[Count, int] = {"edits_shown": 1200, "edits_accepted": 7, "edits_kept": 5}
    add_counts(tmp_path / STATISTICS, {(day(0), "rust"): edits})
    add_counts(tmp_path / STATISTICS, {(day(2), "rust"): edits})
    lines = [line.split() for line in shown(tmp_path).splitlines()]
    assert ["next", "edits", "shown", "accepted", "kept"] in lines
    assert ["today", "1,200", "7", "5"] in lines and ["last", "7", "days", "2,400", "14", "10"] in lines


async def test_the_table_can_be_read(folder: Path) -> None:
    code, printed, _ = run("--folder", str(folder))
    assert code == 0
    lines = [" ".join(line.replace("│", " ").split()) for line in printed.splitlines()]
    assert "today 5 3 0 60% 50%" in lines
    assert "python 4 2 0 50% 50%" in lines
    assert any(line.startswith("[red]rust 1 1 0 100%") for line in lines)


def test_the_first_day_is_one_block_and_one_language_one_line(tmp_path: Path) -> None:
    only = {(day(0), "python"): counts(401, 120, 14, 3210, 2871), (day(0), "dotenv"): counts(0, 0, 0, 0, 0)}
    add_counts(tmp_path / STATISTICS, only)
    assert shown(tmp_path) == (GOLDEN / "stats_first_day.txt").read_text("utf-8")


def test_a_year_fits_into_80_columns(tmp_path: Path) -> None:
    counted = {
        (day(0), "python"): counts(401, 120, 14, 3210, 2871),
        (day(0), "typescriptreact"): counts(3, 0, 0, 0, 0),
        (day(0), "json"): {"requests": 7},
        (day(3), "[red]rust"): counts(1204, 12, 1, 404, 10),
        (day(300), "python"): counts(182401, 50120, 10014, 1203210, 1002871),
    }
    add_counts(tmp_path / STATISTICS, counted)
    assert shown(tmp_path) == (GOLDEN / "stats_year.txt").read_text("utf-8")


async def test_numbers_and_languages_are_all_that_is_kept(folder: Path) -> None:
    content = (folder / STATISTICS).read_bytes()
    assert [text for text in NOTHING_OF_THE_USER if text in content] == []
    assert b"python" in content


async def test_a_server_that_keeps_nothing_counts_nothing_here(tmp_path: Path) -> None:
    async with started(settings={"cache_folder": str(tmp_path), "persist": False}) as editor:
        await accept(editor)
    assert list(tmp_path.iterdir()) == []


async def test_what_is_damaged_is_told_by_the_server_and_counting_goes_on(tmp_path: Path) -> None:
    (tmp_path / STATISTICS).write_bytes(b"nonsense" * 1000)
    async with started(settings={"cache_folder": str(tmp_path)}) as editor:
        await accept(editor)
    assert "statistics.sqlite3" in editor.stderr and "renamed" in editor.stderr
    assert read(tmp_path)["all"]["python"]["accepted"] == 1


async def test_clear_removes_it(folder: Path) -> None:
    (folder / f"{STATISTICS}.damaged").touch()
    assert run("--folder", str(folder), "--clear")[0] == 0
    assert list(folder.iterdir()) == []
    assert run("--folder", str(folder), "--clear")[0] == 0


@pytest.mark.parametrize("content", [None, b""])
def test_before_anything_was_counted_it_says_so(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / STATISTICS).write_bytes(content)
    assert run("--folder", str(tmp_path)) == (0, f"nothing has been counted yet in {tmp_path}\n", "")
    assert read(tmp_path) == {}


def test_a_file_that_cannot_be_read_is_one_line_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / STATISTICS).write_bytes(b"nonsense" * 1000)
    code, printed, complaint = run("--folder", str(tmp_path))
    assert (code, printed) == (1, "")
    assert complaint.count("\n") == 1 and "--clear" in complaint


@pytest.mark.parametrize("options", [[], ["--json"]])
async def test_a_reader_that_has_gone_is_nothing_to_complain_of(folder: Path, options: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "efim_ls", "stats", "--folder", str(folder), *options]
    done = subprocess.run(command, env=ENV, stdout=writer, stderr=subprocess.PIPE, timeout=HANG, check=False)
    os.close(writer)
    assert done.stderr == b""
