"""The VS Code extension offers the settings of the server in titled groups, with equal types, bounds and defaults."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from efim_lab.gate.reference.settings import vscode_name
from efim_ls.setting_objects import OBJECTS
from efim_ls.settings import DESCRIPTIONS, TABLE, TEXTS, Settings, parse, words_of

MANIFEST = Path(__file__).parents[3] / "editor_clients" / "vscode" / "package.json"
GROUPS = json.loads(MANIFEST.read_text("utf-8"))["contributes"]["configuration"]
JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", TEXTS: "array", TABLE: "object"}
JSON_TYPES |= dict.fromkeys(OBJECTS, "object")
KNOWN = asdict(Settings())
SERVER_NAMES = {vscode_name(name): name for name in KNOWN}
OFFERED: dict[str, Any] = {
    SERVER_NAMES.get(str(name), str(name)): offered
    for group in GROUPS
    for name, offered in group["properties"].items()
}
TYPES = get_type_hints(Settings)
STEP = {int: 1, float: 0.01}


def kinds_of(kind: Any) -> tuple[Any, ...]:
    """The kinds of which a value may be one."""
    return get_args(kind) if get_origin(kind) is Union else (kind,)


NUMBERS = {name: each for name in KNOWN for each in kinds_of(TYPES[name]) if each in (int, float)}


def test_the_extension_offers_what_the_server_knows() -> None:
    assert set(OFFERED) - {"efim-ls.python", "efim-ls.names"} == set(KNOWN)


def test_settings_are_in_titled_groups_with_the_advanced_ones_last() -> None:
    assert [group["order"] for group in GROUPS] == [*range(1, len(GROUPS) + 1)]
    titles = [group["title"] for group in GROUPS]
    assert titles == ["Model", "Suggestions", "Files", "Privacy", "Memory and disk", "Server", "Advanced"]
    advanced = {vscode_name(name) for name, about in DESCRIPTIONS.items() if not about.basic}
    assert set(GROUPS[-1]["properties"]) == advanced


def test_a_workspace_that_is_not_trusted_cannot_widen_what_is_read() -> None:
    restricted = json.loads(MANIFEST.read_text("utf-8"))["capabilities"]["untrustedWorkspaces"][
        "restrictedConfigurations"
    ]
    privacy = {
        "other_files",
        "persist",
        "cache_folder",
        "disabled_files",
        "private_files",
        "engine",
        "shared_tier",
    }
    assert {vscode_name(name) for name in privacy} <= {*restricted} <= {*map(vscode_name, KNOWN), "efim-ls.python"}


@pytest.mark.parametrize(("name", "there"), [("model", "efim-ls.model"), ("max_lines", "efim-ls.maxLines")])
def test_names_are_in_the_habit_of_vscode(name: str, there: str) -> None:
    assert vscode_name(name) == there
    assert any(there in group["properties"] for group in GROUPS)


@pytest.mark.parametrize("name", KNOWN)
def test_defaults_are_equal(name: str) -> None:
    default = {} if TYPES[name] in OBJECTS else KNOWN[name]
    as_json = dict(default) if TYPES[name] == TABLE else list(default) if isinstance(default, tuple) else default
    assert OFFERED[name]["default"] == as_json


@pytest.mark.parametrize("name", KNOWN)
def test_types_are_equal(name: str) -> None:
    if get_origin(TYPES[name]) is Union:
        words, number = get_args(TYPES[name])
        assert OFFERED[name]["type"] == ["string", JSON_TYPES[number]] and get_origin(words) is Literal
        return
    kind = str if get_origin(TYPES[name]) is Literal else TEXTS if words_of(TYPES[name]) else TYPES[name]
    assert OFFERED[name]["type"] == JSON_TYPES[kind]
    assert OFFERED[name].get("items", {}).get("type") == ("string" if JSON_TYPES[kind] == "array" else None)


@pytest.mark.parametrize("name", KNOWN)
def test_choices_are_equal_and_described(name: str) -> None:
    choices = next((get_args(each) for each in kinds_of(TYPES[name]) if get_origin(each) is Literal), ())
    place = OFFERED[name]
    if words := words_of(TYPES[name]):
        choices, place = words, OFFERED[name]["items"]
    assert tuple(place.get("enum", ())) == choices
    assert len(place.get("enumDescriptions", ())) == len(choices)


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_equal(name: str) -> None:
    least, most = OFFERED[name]["minimum"], OFFERED[name]["maximum"]
    beyond = STEP[NUMBERS[name]]
    assert [bool(parse({name: value})[1]) for value in (least, most)] == [False, False]
    assert [bool(parse({name: value})[1]) for value in (least - beyond, most + beyond)] == [True, True]


@pytest.mark.parametrize("name", OFFERED)
def test_every_setting_is_described(name: str) -> None:
    assert OFFERED[name]["markdownDescription"].endswith((".", ":"))
