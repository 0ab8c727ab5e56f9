"""The template that LSP4IJ imports tells it every language that suggestions are on for, and no other.

LSP4IJ's `ServerTemplateJsonDeserializer` and `LanguageServerTemplateDeserializer` read these members.
"""

from __future__ import annotations

import json
from pathlib import Path

from efim_ls.languages.table import ENDINGS
from efim_ls.settings import Settings

FOLDER = Path(__file__).parents[3] / "editor_clients" / "jetbrains"
TEMPLATE = json.loads((FOLDER / "template.json").read_text("utf-8"))


def test_the_template_starts_the_server() -> None:
    assert TEMPLATE["id"] == TEMPLATE["name"] == "efim-ls"
    assert TEMPLATE["programArgs"] == {"default": "efim-ls"}
    assert TEMPLATE["url"] is None  # else LSP4IJ links to a page of its own about a server with this id
    assert (FOLDER / "README.md").is_file()  # LSP4IJ shows it next to the template


def test_the_template_knows_the_languages_by_their_files() -> None:
    told: dict[str, str] = {}
    for mapping in TEMPLATE["fileTypeMappings"]:
        assert {*mapping} == {"fileType", "languageId"} and {*mapping["fileType"]} == {"patterns"}
        for pattern in mapping["fileType"]["patterns"]:
            told[pattern.removeprefix("*").lower()] = mapping["languageId"]
    off = Settings().disabled_languages
    assert told == {ending: language for ending, language in ENDINGS.items() if language not in off}
