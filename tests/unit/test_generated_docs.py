"""Pages that `make docs` renders from the code are as it would render them now."""

from __future__ import annotations

from pathlib import Path

from efim_ls.commands import reference

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_commands_is_up_to_date() -> None:
    assert (DOCS / "commands.md").read_text("utf-8") == reference.render(), "stale: run make docs"
