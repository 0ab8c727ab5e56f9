"""What `make docs` renders from the product's code is in the repository as it would be rendered now."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_lab.gate.reference.files import RENDERED
from efim_lab.gate.reference.settings import settings_page
from efim_ls.settings import DESCRIPTIONS


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.name)
def test_a_rendered_file_is_current(path: Path) -> None:
    text = path.read_text("utf-8")
    assert RENDERED[path](text) == text, "stale: run make docs"


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.name)
def test_what_the_help_leaves_out_is_left_out(path: Path) -> None:
    text = RENDERED[path](path.read_text("utf-8"))
    assert "SUPPRESS" not in text and "--first-message" not in text


def test_the_page_begins_with_the_basic_settings() -> None:
    basic, _, advanced = settings_page().partition("## Advanced")
    assert sum(about.basic for about in DESCRIPTIONS.values()) == 13
    for name, about in DESCRIPTIONS.items():
        assert (f"| `{name}` |" in basic, f"| `{name}` |" in advanced) == (about.basic, not about.basic)


def test_every_text_is_whole_sentences() -> None:
    for about in DESCRIPTIONS.values():
        assert about.text[0].isupper() and about.text.endswith(".")
