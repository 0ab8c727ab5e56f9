"""What a user says of an engine on another machine: the setting `engine`, checked name by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit

from model_runtime.errors import EngineError

Kind = Literal["", "vllm", "llama.cpp", "openai"]
KINDS = ("vllm", "llama.cpp", "openai")
MOST_SECONDS = 10  # that an answer may wait
MOST_PRIORITY = 1 << 31


@dataclass(frozen=True)
class RemoteOptions:
    """A server, its dialect, and the text that it may get; without a `url` there is none.

    Without one, a large model that is computed here answers `alone` if that is set, not after the embedded one.

    `kind` is found out if empty, and `model` if the server has one alone. Its key is in an environment variable or a
    file. `cache_salt` and `priority` go to vLLM as they are. `wait_seconds` is how long an answer that this machine
    gives waits for the larger model's. Private text is sent only if `private`.
    """

    url: str = ""
    kind: Kind = ""
    model: str = ""
    key_variable: str = ""
    key_file: str = ""
    wait_seconds: float = 0.3
    private: bool = False
    cache_salt: str = ""
    priority: int = 0
    alone: bool = False

    @property
    def host(self) -> str:
        """The server's name and port, for people."""
        return urlsplit(self.url).netloc

    @property
    def base(self) -> str:
        """The address without the version that OpenAI's clients put behind it."""
        return self.url.rstrip("/").removesuffix("/v1")

    def key(self) -> str:
        """Return the key that the server wants, empty if none is named; EngineError if it cannot be had."""
        if self.key_variable:
            if not (key := os.environ.get(self.key_variable, "").strip()):
                raise EngineError(
                    f"the environment variable {self.key_variable} has no key for {self.host}: set it, or name a "
                    "file as 'key_file' in the setting 'engine'"
                )
            return key
        if not self.key_file:
            return ""
        try:
            return Path(self.key_file).expanduser().read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise EngineError(
                f"the key for {self.host} cannot be read from {self.key_file} ({type(error).__name__}): "
                "correct 'key_file' in the setting 'engine'"
            ) from None


class Field(NamedTuple):
    """What a value must be, in words; how that is checked; its JSON schema."""

    expected: str
    is_valid: Callable[[object], bool]
    schema: Mapping[str, object]


def address(value: object) -> SplitResult | None:
    """Return the parts of a value that is an address, None if it is none or its port cannot be one."""
    if not isinstance(value, str) or not value.isprintable():
        return None
    try:
        parts = urlsplit(value)
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def _is_address(value: object) -> bool:
    """Return whether a value is the address of a server, without a user, a key or a question in it."""
    if (parts := address(value)) is None:
        return False
    is_bare = not (parts.username or parts.password or parts.query or parts.fragment)
    return bool(parts.hostname) and is_bare and parts.scheme in ("http", "https")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_kind(value: object) -> bool:
    return value in KINDS


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_SECONDS


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_PRIORITY


TEXT = Field("a text", _is_text, {"type": "string"})
SWITCH = Field("true or false", _is_switch, {"type": "boolean"})
FIELDS: Mapping[str, Field] = {
    "url": Field("an address like http://host:8000, without a key in it,", _is_address, {"type": "string"}),
    "kind": Field(" or ".join(map(repr, KINDS)), _is_kind, {"enum": [*KINDS]}),
    "model": TEXT,
    "key_variable": TEXT,
    "key_file": TEXT,
    "wait_seconds": Field(
        f"a number from 0 to {MOST_SECONDS}", _is_time, {"type": "number", "minimum": 0, "maximum": MOST_SECONDS}
    ),
    "private": SWITCH,
    "cache_salt": TEXT,
    "priority": Field("a whole number", _is_whole, {"type": "integer"}),
    "alone": SWITCH,
}
HERE = ("wait_seconds", "alone")  # what may be said of a model that is computed here


def object_problem(
    setting: str, fields: Mapping[str, Field], value: object, without_url: Collection[str] = ()
) -> str | None:
    """Return the fault of a setting that is an object with a `url`, or has names `without_url` alone; else None."""
    if not isinstance(value, Mapping):
        return f"setting {setting!r}: expected an object, got {value!r}"
    given = cast("Mapping[str, object]", value)
    for name, each in given.items():
        if name not in fields:
            return f"setting {setting!r}: unknown name {name!r}, expected one of {', '.join(fields)}"
        if not fields[name].is_valid(each):
            return f"setting {setting!r}: expected {fields[name].expected} as {name!r}"  # the value may hold a key
    if "url" in given and given.get("alone"):
        return f"setting {setting!r}: 'alone' is for a model that is computed here, leave it out next to 'url'"
    if "url" not in given and not given.keys() <= set(without_url):
        return f"setting {setting!r}: expected 'url', the address of the server"
    return None
