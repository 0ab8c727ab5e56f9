"""Pages that a user reads first name every language that has a model, as the models' own configurations do."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_ls.languages.table import LANGUAGES, listed, names_of
from model_runtime.checkpoint.config import read_languages
from model_runtime.checkpoint.embedded import EMBEDDED

ROOT = Path(__file__).parents[4]
PAGES = {"README.md": 2, "docs/faq.md": 1, "editor_clients/vscode/README.md": 1}  # how often each names them


def known() -> str:
    """Return the languages of all models in this repository, in the order of the table."""
    names = {name for each in EMBEDDED.parent.glob("*/config.json") for name in read_languages(each.parent)}
    return listed(names_of(each for each in LANGUAGES if each in names))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_the_languages_that_have_a_model(page: str) -> None:
    text = " ".join((ROOT / page).read_text("utf-8").split())
    assert text.count(known()) >= PAGES[page], f"{page} does not name {known()}"
