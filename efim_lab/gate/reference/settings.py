"""Renders what users read about the settings from their descriptions.

That is docs/settings.md, and the settings in the manifest of the VS Code extension.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from efim_ls.setting_objects import OBJECTS
from efim_ls.settings import DEFAULTS, DESCRIPTIONS, NO_LIMIT, TABLE, TEXTS, TYPES, Description, words_of

CONFIGURATION = '"configuration": '  # in the manifest, before the list of groups of settings
ADVANCED = "Advanced"  # VS Code's group of the settings that few users need, shown last
JSON_TYPES: Mapping[Any, str] = {
    bool: "boolean", int: "integer", float: "number", TEXTS: "array", TABLE: "object",
    **dict.fromkeys(OBJECTS, "object"),
}  # fmt: skip
# Settings that VS Code does not carry from one machine to another.
OF_THE_MACHINE = (
    "model", "template", "device", "weights", "threads", "prefetch_seconds_per_minute", "approximations",
    "memory_mib", "cache_folder", "disk_mib", "engine", "shared_tier",
)  # fmt: skip
INTRODUCTION = """\
# Settings

Generated from `efim_ls/settings.py` by `make docs`; edit the texts there.

An editor sends settings in `initializationOptions` or `workspace/didChangeConfiguration`, section `efim-ls`. In
Neovim they go into `settings`; in VS Code `max_lines` is called `efim-ls.maxLines`, and so on;
[editors.md](editors.md) shows the place for other editors. A setting that is unknown or invalid is named in one
message, and its default is used.
"""
HEADER = "| setting | default | effect | values |\n| --- | --- | --- | --- |"


def settings_page() -> str:
    """Return docs/settings.md: the basic settings, then the advanced ones by group."""
    basic = [name for name, about in DESCRIPTIONS.items() if about.basic]
    sections = [INTRODUCTION, "## Basic", _table(basic), "## Advanced"]
    for group in dict.fromkeys(about.group for about in DESCRIPTIONS.values()):
        names = [name for name, about in DESCRIPTIONS.items() if about.group == group and not about.basic]
        sections += [f"### {group}", _table(names)] if names else []
    return "\n\n".join(section.strip() for section in sections) + "\n"


def manifest_with_settings(text: str) -> str:
    """Return the text of the manifest with its settings written again; groups of the extension's own ones stay."""
    start = text.index(CONFIGURATION) + len(CONFIGURATION)
    current, end = json.JSONDecoder().raw_decode(text, start)
    known = {vscode_name(name) for name in TYPES}
    own = [group for group in current if known.isdisjoint(group["properties"])]
    basic = [about.group for about in DESCRIPTIONS.values() if about.basic]
    groups = [*(_group(title) for title in dict.fromkeys(basic)), *own, _group(ADVANCED)]
    written = json.dumps([{**group, "order": order} for order, group in enumerate(groups, 1)], indent=2)
    indent = " " * (start - text.rindex("\n", 0, start) - len(CONFIGURATION) - 1)
    return text[:start] + written.replace("\n", f"\n{indent}") + text[end:]


def vscode_name(name: str) -> str:
    """Return a setting's name in VS Code: `efim-ls.maxLines`, shown as "Max Lines"."""
    first, *others = name.split("_")
    return "efim-ls." + first + "".join(map(str.capitalize, others))


def _table(names: Sequence[str]) -> str:
    return "\n".join([HEADER, *map(_row, names)])


def _row(name: str) -> str:
    default = json.dumps(_default(name))
    return f"| `{name}` | `{default}` | {DESCRIPTIONS[name].text} | {_values(name)} |"


def _values(name: str) -> str:
    kind, about = TYPES[name], DESCRIPTIONS[name]
    if about.choices:
        words = " ".join(f"`{value}`: {meaning}" for value, meaning in about.choices.items())
        return f"{words} Or a number, {about.least} to {about.most}." if get_origin(kind) is Union else words
    if kind in (int, float):
        return f"{about.least} or more" if about.most == NO_LIMIT else f"{about.least} to {about.most}"
    return {bool: "`true`, `false`", TEXTS: "list of texts", TABLE: "object", **dict.fromkeys(OBJECTS, "object")}.get(
        kind, "text"
    )


def _group(title: str) -> dict[str, Any]:
    """Return a group of basic settings or, as the last group, all advanced ones."""
    names = [name for name, about in DESCRIPTIONS.items() if title == (about.group if about.basic else ADVANCED)]
    properties = {vscode_name(name): {"order": order, **_property(name)} for order, name in enumerate(names, 1)}
    return {"title": title, "properties": properties}


def _property(name: str) -> dict[str, Any]:
    about = DESCRIPTIONS[name]
    scope = {"scope": "machine-overridable"} if name in OF_THE_MACHINE else {}
    text = re.sub(r"`(\w+)`", lambda word: f"`#{vscode_name(word[1])}#`" if word[1] in TYPES else word[0], about.text)
    return {**scope, **_schema(TYPES[name], about), "default": _default(name), "markdownDescription": text}


def _schema(kind: Any, about: Description) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": JSON_TYPES.get(kind, "string")}
    if kind in (int, float):
        schema |= {"minimum": about.least, "maximum": about.most}
    if kind == TEXTS:
        schema |= {"items": {"type": "string"}, "uniqueItems": True}
    if kind == TABLE:
        schema["additionalProperties"] = {"type": ["string", "array"], "items": {"type": "string"}}
    if kind in OBJECTS:
        properties = {name: each.schema for name, each in OBJECTS[kind].fields.items()}
        schema |= {"properties": properties, "additionalProperties": False}
    if words := words_of(kind):
        items = {"type": "string", "enum": list(words), "enumDescriptions": [about.choices[word] for word in words]}
        return {"type": "array", "items": items, "uniqueItems": True}
    if get_origin(kind) is Union:
        # With `anyOf` VS Code's settings would show no list of the words; so a number is marked, but called right.
        schema |= {
            "type": ["string", "integer" if int in get_args(kind) else "number"],
            "minimum": about.least,
            "maximum": about.most,
        }
        schema["errorMessage"] = f"Choose a word. A number from {about.least} to {about.most} works as well."
    if about.choices:
        schema |= {"enum": list(about.choices), "enumDescriptions": list(about.choices.values())}
    return schema


def _default(name: str) -> object:
    value = getattr(DEFAULTS, name)
    if TYPES[name] in OBJECTS:
        return {}
    return dict(value) if TYPES[name] == TABLE else value
