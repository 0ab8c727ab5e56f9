"""The settings that the VS Code extension offers are the server's, under the same names, with the same defaults."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from efim_ls.settings import REMOVED, TABLE, TEXTS, Settings, parse

MANIFEST = Path(__file__).parents[3] / "editor_clients" / "vscode" / "package.json"
OF_THE_EXTENSION = {"python"}
JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", TEXTS: "array", TABLE: "object"}
OFFERED: dict[str, Any] = {
    name.removeprefix("efim-ls."): offered
    for name, offered in json.loads(MANIFEST.read_text("utf-8"))["contributes"]["configuration"]["properties"].items()
}
KNOWN = asdict(Settings())
TYPES = get_type_hints(Settings)
NUMBERS = [name for name in KNOWN if TYPES[name] in (int, float)]
STEP = {int: 1, float: 0.01}


def test_the_extension_offers_what_the_server_knows() -> None:
    assert set(OFFERED) - OF_THE_EXTENSION - set(REMOVED) == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_defaults_are_equal(name: str) -> None:
    default = KNOWN[name]
    wrap = {"array": list, "object": dict}.get(OFFERED[name]["type"], lambda same: same)
    assert OFFERED[name]["default"] == wrap(default)


@pytest.mark.parametrize("name", KNOWN)
def test_types_are_equal(name: str) -> None:
    kind = str if get_origin(TYPES[name]) is Literal else TYPES[name]
    assert OFFERED[name]["type"] == JSON_TYPES[kind]
    assert OFFERED[name].get("items", {}).get("type") == ("string" if JSON_TYPES[kind] == "array" else None)


@pytest.mark.parametrize("name", KNOWN)
def test_choices_are_equal_and_described(name: str) -> None:
    choices = get_args(TYPES[name]) if get_origin(TYPES[name]) is Literal else ()
    assert tuple(OFFERED[name].get("enum", ())) == choices
    assert len(OFFERED[name].get("enumDescriptions", ())) == len(choices)


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_equal(name: str) -> None:
    least, most = OFFERED[name]["minimum"], OFFERED[name]["maximum"]
    beyond = STEP[TYPES[name]]
    assert [bool(parse({name: value})[1]) for value in (least, most)] == [False, False]
    assert [bool(parse({name: value})[1]) for value in (least - beyond, most + beyond)] == [True, True]


@pytest.mark.parametrize("name", OFFERED)
def test_every_setting_is_described(name: str) -> None:
    assert OFFERED[name]["markdownDescription"].endswith((".", ":"))
