from __future__ import annotations

from efim_ls.settings import DESCRIPTIONS
from efim_ls.settings_reference import MANIFEST, PAGE, manifest, page

STALE = "stale: run make docs"


def test_the_page_of_settings_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), STALE


def test_the_extensions_settings_are_current() -> None:
    text = MANIFEST.read_text("utf-8")
    assert manifest(text) == text, STALE


def test_the_page_begins_with_eight_basic_settings() -> None:
    basic, _, advanced = page().partition("## Advanced")
    assert sum(about.basic for about in DESCRIPTIONS.values()) == 8
    for name, about in DESCRIPTIONS.items():
        assert (f"| `{name}` |" in basic, f"| `{name}` |" in advanced) == (about.basic, not about.basic)


def test_every_text_is_whole_sentences() -> None:
    for about in DESCRIPTIONS.values():
        assert about.text[0].isupper() and about.text.endswith(".")
