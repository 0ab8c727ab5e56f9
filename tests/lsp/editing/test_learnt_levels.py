"""What a user takes or passes by moves the level at the next start; `efim-ls stats` explains and resets it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

from efim_ls.settings import DEFAULTS
from efim_ls.usage.confidence_bins import BinCount, ConfidenceBin
from efim_ls.usage.history import STATISTICS, add_counts
from tests.lsp.wire import ENV, HANG, REAL, Editor, started
from tests.models import CODE

DEFAULT = DEFAULTS.min_confidence
LINE = "    def __init__(self, name: str, value: int = 0) -> None:"
PHRASES = "const total = sum(products, prices);\nconst more = sum(products, pri‸"
SUGGESTIONS = 120
UNSURE, SURE, VERY_SURE = 0.8 * DEFAULT, 1.1 * DEFAULT, 0.6


async def stats(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "efim_ls", "stats", "--folder", str(folder), *options]
    env = {**ENV, "COLUMNS": "80"}
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, timeout=HANG, check=True
    )
    return done.stdout


async def levels(folder: Path) -> dict[str, dict[str, Any]]:
    return json.loads(await stats(folder, "--json")).get("levels", {})


async def use(editor: Editor, takes: bool, confidence: float = VERY_SURE, reports: bool = True) -> None:
    """Get suggestions and take all of them, or pass all by."""
    for _ in range(SUGGESTIONS):
        page = editor.open(f"# say more\n# sure {confidence}\n‸")
        item = await page.item()
        assert item is not None
        if reports:
            editor.tell("textDocument/didShowCompletion", {"item": item})
        if takes:
            page.type("more")
            command = {"command": item["command"]["command"], "arguments": item["command"]["arguments"]}
            await editor.ask("workspace/executeCommand", command)
        page.close()


async def shows(editor: Editor, confidence: float, language: str = "python") -> bool:
    return await editor.open(f"# say more\n# sure {confidence}\n‸", language=language).ghost() is not None


async def test_who_passes_all_by_sees_surer_ones_after_a_restart_until_it_is_reset(tmp_path: Path) -> None:
    settings = {"cache_folder": str(tmp_path)}
    async with started(settings=settings) as editor:
        assert await shows(editor, SURE) and not await shows(editor, UNSURE)
        await use(editor, takes=False)
        assert await shows(editor, SURE), "not while the user types"
    async with started(settings=settings) as editor:
        assert not await shows(editor, SURE) and await shows(editor, VERY_SURE)
        assert await shows(editor, SURE, language="rust"), "a language of its own"
        page = editor.open(f"# say more\n# sure {SURE}\n‸")
        assert await page.item(kind=1) is not None, "a key shows all"
    found = (await levels(tmp_path))["python"]
    assert found["level"] > found["default"] == DEFAULT
    assert found["shown"] >= SUGGESTIONS and found["kept"] == 0 and found["usual"] > 0.2
    explained = re.search(r"^python: (.*)", await stats(tmp_path), re.MULTILINE)
    assert explained is not None
    parts = ("shown from", f"{found['level']:.0%} on", f"(default {DEFAULT:.0%})", f"of {found['shown']} you kept 0%")
    assert all(part in explained[1] for part in parts)
    await stats(tmp_path, "--clear")
    assert await levels(tmp_path) == {}
    async with started(settings=settings) as editor:
        assert await shows(editor, SURE)


async def test_who_takes_all_sees_less_sure_ones_after_a_restart(tmp_path: Path) -> None:
    settings = {"cache_folder": str(tmp_path)}
    async with started(settings=settings) as editor:
        await use(editor, takes=True)
    found = (await levels(tmp_path))["python"]
    assert found["level"] < DEFAULT and found["kept"] == found["shown"] == SUGGESTIONS
    async with started(settings=settings) as editor:
        assert await shows(editor, UNSURE)
        editor.tell("workspace/didChangeConfiguration", {"settings": {"adaptive_confidence": False}})
        assert not await shows(editor, UNSURE), "off at once"
    async with started(settings={**settings, "adaptive_confidence": False}) as editor:
        assert not await shows(editor, UNSURE) and await shows(editor, SURE)
    async with started(settings={**settings, "min_confidence": SURE}) as editor:
        assert not await shows(editor, (DEFAULT + SURE) / 2), "the user has decided"


async def test_switched_off_nothing_is_learnt(tmp_path: Path) -> None:
    settings = {"cache_folder": str(tmp_path), "adaptive_confidence": False}
    async with started(settings=settings) as editor:
        await use(editor, takes=False)
    assert json.loads(await stats(tmp_path, "--json"))["all"]["python"]["shown"] == SUGGESTIONS
    assert await levels(tmp_path) == {}


async def test_a_client_that_never_reports_what_is_shown_teaches_nothing(tmp_path: Path) -> None:
    async with started(settings={"cache_folder": str(tmp_path)}) as editor:
        await use(editor, takes=True, reports=False)
    assert json.loads(await stats(tmp_path, "--json"))["all"]["python"]["accepted"] == SUGGESTIONS
    assert await levels(tmp_path) == {}


async def test_what_the_user_asked_for_by_key_teaches_nothing(tmp_path: Path) -> None:
    async with started(settings={"cache_folder": str(tmp_path)}) as editor:
        for _ in range(3):
            item = await editor.open("# say more\n# sure 0.6\n‸").item(kind=1)
            editor.tell("textDocument/didShowCompletion", {"item": item})
        await editor.stats()
    assert await levels(tmp_path) == {}


async def typed(folder: Path) -> list[tuple[str | None, float | None]]:
    """What the embedded model shows at each key of a line, and how sure it is of that or of what it hides."""
    async with started(REAL, settings={"cache_folder": str(folder)}) as editor:
        page, found = editor.open(CODE.replace(LINE, "‸", 1)), list[tuple[str | None, float | None]]()
        for key in LINE:
            shown = await page.ghost()
            found.append((shown, (await editor.stats())["last_confidence"]))
            page.type(key)
    return found


async def test_the_embedded_model_shows_less_where_all_was_passed_by(tmp_path: Path) -> None:
    before = await typed(tmp_path)
    passed_by: dict[BinCount, int] = {"shown": 2000}
    days = {(date.today().isoformat(), ConfidenceBin("python", 60)): passed_by}
    add_counts(tmp_path / STATISTICS, {}, days)
    level = (await levels(tmp_path))["python"]["level"]
    after = await typed(tmp_path)
    assert level == 0.5
    assert any(shown and sure is not None and sure < level for shown, sure in before)
    assert all(sure is not None and sure >= level for shown, sure in after if shown)
    assert 0 < sum(len(shown or "") for shown, _ in after) < sum(len(shown or "") for shown, _ in before)


async def test_phrases_where_the_model_does_not_know_the_language_teach_nothing(tmp_path: Path) -> None:
    async with started(REAL, settings={"cache_folder": str(tmp_path)}) as editor:
        for text, language in (
            (PHRASES, "typescript"),
            ("def area(width, height):\n    return width * height\n\n\ndef edge(wid‸", "python"),
        ):
            item = await editor.open(text, language=language).item()
            assert item is not None
            editor.tell("textDocument/didShowCompletion", {"item": item})
        await editor.stats()
    assert list(await levels(tmp_path)) == ["python"]


async def test_damaged_statistics_are_no_reason_to_show_less(tmp_path: Path) -> None:
    (tmp_path / "statistics.sqlite3").write_bytes(b"nonsense" * 1000)
    async with started(settings={"cache_folder": str(tmp_path)}) as editor:
        assert await shows(editor, SURE) and not await shows(editor, UNSURE)
