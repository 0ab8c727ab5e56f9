"""No room but that of languages names one: what differs between languages is a field of their records."""

from __future__ import annotations

import ast
from pathlib import Path

from efim_ls.languages.records import others
from efim_ls.languages.table import LANGUAGES

ROOT = Path(__file__).parents[4]
PRODUCT = ("efim_ls", "model_runtime", "kv_store")
ROOMS = ("efim_ls/languages/", "model_runtime/checkpoint/embedded.py")  # the second names models by language
WELL_KNOWN = {*filter(None, LANGUAGES)} - {each.id for each in others.LANGUAGES}
LISTED = 4  # names in one collection, of which some are words of other trades, too: "text", "log", "c"


def strings(node: ast.AST) -> list[str]:
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def test_a_language_is_named_in_its_room_alone() -> None:
    named, listed = list[str](), list[str]()
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            place, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))
            if place.startswith(ROOMS):
                continue
            named += (f"{place}: {each}" for each in strings(tree) if each.lower() in WELL_KNOWN)
            collections = (
                each for each in ast.walk(tree) if isinstance(each, (ast.Tuple, ast.Set, ast.List, ast.Dict))
            )
            for each in collections:
                words = {word for text in strings(each) for word in [text.lower()] if word in LANGUAGES and word}
                listed += [f"{place}: {sorted(words)}"] if len(words) >= LISTED else []
    print(f"{len(named)} names of languages, {len(listed)} lists of them outside of their room")
    assert named == [] and listed == []
