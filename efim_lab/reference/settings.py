"""Renders what users read about the settings from their descriptions.

That is docs/settings.md, and the settings in the manifest of the VS Code extension.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from efim_ls.settings import DEFAULTS, DESCRIPTIONS, NO_LIMIT, REMOVED, TABLE, TEXTS, TYPES, Description

PROPERTIES = '"properties": '  # in the manifest, before the object of all settings
JSON_TYPES: Mapping[Any, str] = {bool: "boolean", int: "integer", float: "number", TEXTS: "array", TABLE: "object"}
# Settings that VS Code does not carry from one machine to another.
OF_THE_MACHINE = (
    "model", "revision", "template", "device", "weights", "threads", "ahead_seconds_per_minute",
    "kv_memory_mib", "host_memory_mib", "cache_folder", "disk_mib", "disk_codec",
)  # fmt: skip
INTRODUCTION = """\
# Settings

Generated from `efim_ls/settings.py` by `make docs`; edit the texts there.

An editor sends settings in `initializationOptions` or `workspace/didChangeConfiguration`, section `efim-ls`. In
VS Code each is called `efim-ls.<name>`, in Neovim it goes into `settings`; [editors.md](editors.md) shows the place
for other editors. A setting that is unknown or invalid is named in one message, and its default is used.
"""
HEADER = "| setting | default | what it does | values |\n| --- | --- | --- | --- |"


def settings_page() -> str:
    """Return docs/settings.md: the basic settings, then the advanced ones by group."""
    basic = [name for name, about in DESCRIPTIONS.items() if about.basic]
    sections = [INTRODUCTION, "## Basic", _table(basic), "## Advanced"]
    for group in dict.fromkeys(about.group for about in DESCRIPTIONS.values()):
        names = [name for name, about in DESCRIPTIONS.items() if about.group == group and not about.basic]
        sections += [f"### {group}", _table(names)]
    removed = ", ".join(f"`{name}`" for name in REMOVED)
    sections += ["## Removed", f"{removed}: a client that still sends one is told once, and the value is ignored."]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def manifest_with_settings(text: str) -> str:
    """Return the text of the manifest with its settings written again; the extension's own ones stay."""
    start = text.index(PROPERTIES) + len(PROPERTIES)
    current, end = json.JSONDecoder().raw_decode(text, start)
    own = {name: about for name, about in current.items() if name.removeprefix("efim-ls.") not in {*TYPES, *REMOVED}}
    written = json.dumps({**own, **dict(_properties())}, indent=2)
    indent = " " * (start - text.rindex("\n", 0, start) - len(PROPERTIES) - 1)
    return text[:start] + written.replace("\n", f"\n{indent}") + text[end:]


def _table(names: Sequence[str]) -> str:
    return "\n".join([HEADER, *map(_row, names)])


def _row(name: str) -> str:
    default = json.dumps(_default(name))
    return f"| `{name}` | `{default}` | {DESCRIPTIONS[name].text} | {_values(name)} |"


def _values(name: str) -> str:
    kind, about = TYPES[name], DESCRIPTIONS[name]
    if about.choices:
        return " ".join(f"`{value}`: {meaning}" for value, meaning in about.choices.items())
    if kind in (int, float):
        return f"{about.least} or more" if about.most == NO_LIMIT else f"{about.least} to {about.most}"
    return {bool: "`true`, `false`", TEXTS: "list of texts", TABLE: "object"}.get(kind, "text")


def _properties() -> Iterator[tuple[str, dict[str, Any]]]:
    for order, (name, about) in enumerate(DESCRIPTIONS.items(), 2):  # 1 is the extension's own setting
        scope = {"scope": "machine-overridable"} if name in OF_THE_MACHINE else {}
        meaning = {"default": _default(name), "markdownDescription": about.text}
        yield f"efim-ls.{name}", {"order": order, **scope, **_schema(TYPES[name], about), **meaning}
    for name, message in REMOVED.items():
        sentence = f"{message[0].upper()}{message[1:]}."
        yield f"efim-ls.{name}", {"markdownDescription": sentence, "deprecationMessage": sentence}


def _schema(kind: Any, about: Description) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": JSON_TYPES.get(kind, "string")}
    if kind in (int, float):
        schema |= {"minimum": about.least, "maximum": about.most}
    if kind == TEXTS:
        schema |= {"items": {"type": "string"}, "uniqueItems": True}
    if kind == TABLE:
        schema["additionalProperties"] = {"type": ["string", "array"], "items": {"type": "string"}}
    if about.choices:
        schema |= {"enum": list(about.choices), "enumDescriptions": list(about.choices.values())}
    return schema


def _default(name: str) -> object:
    value = getattr(DEFAULTS, name)
    return dict(value) if TYPES[name] == TABLE else value
