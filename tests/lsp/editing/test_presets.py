"""Presets through a real process: what is unsure comes once nobody has typed, and names that a module lacks never."""

from __future__ import annotations

from pathlib import Path

import pytest

from editor_clients.headless.client import editor
from efim_ls.completion.suggestions.levels import LEVELS
from tests.editors.drivers.shapes import SHAPES
from tests.lsp.wire import ALONE, started

UNSURE = f"{SHAPES}def border(rect):\n    ‸"
CALLS = "import made_up\n\nalpha = made_up.second(1)\nbeta = made_up.{}(2)\ngamma = made_up.sec"


async def test_a_preset_shows_what_is_unsure_once_nobody_types_and_another_never() -> None:
    async with started(ALONE, settings={"suggestions": "balanced"}) as windowed:
        page = windowed.open(UNSURE)
        ghost = await page.ghost()
        assert ghost is not None and ghost.startswith("width, height = rect.")
        assert (await windowed.stats())["last_confidence"] < LEVELS["balanced"]
        windowed.tell("workspace/didChangeConfiguration", {"settings": {"suggestions": "sure", "shared": False}})
        assert await page.ghost() is None
        assert (await windowed.stats())["last_reason"] == "low confidence"


@pytest.mark.parametrize(
    ("level", "called", "name", "suggested"),
    [
        ("balanced", "second", "second", "ond"), ("balanced", "second", "first", ""),
        ("balanced", "secure", "secure", "ure"), (0, "second", "second", "ond"), (0, "second", "secure", ""),
    ],
)  # fmt: skip
async def test_a_name_that_a_module_lacks_is_cut(
    tmp_path: Path, level: object, called: str, name: str, suggested: str
) -> None:
    calls = CALLS.format(called)
    site = tmp_path / ".venv" / "lib" / "python3.99" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("home = nowhere\nversion = 3.99.1\n", "utf-8")
    (site / "made_up.py").write_text(f"def {name}(one, other): ...\n", "utf-8")
    async with editor({"suggestions": level, "persist": False}, folder=tmp_path) as headless:
        uri = (tmp_path / "calls.py").as_uri()
        headless.open(uri, calls, "python")
        await headless.settled()
        assert (await headless.complete(uri, len(calls))).text.partition("(")[0] == suggested
