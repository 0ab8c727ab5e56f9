"""docs/laboratory.md is as `make docs` would write it now."""

from __future__ import annotations

from efim_lab.commands import build_parser
from efim_lab.laboratory_page import PAGE, laboratory_page


def test_the_page_is_current() -> None:
    text = laboratory_page(build_parser())
    assert PAGE.read_text("utf-8") == text, "stale: run make docs"
    assert "SUPPRESS" not in text
