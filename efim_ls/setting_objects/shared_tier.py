"""The setting `shared_tier`: where a team keeps keys and values, and with which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from model_runtime.remote.setting import SWITCH, TEXT, Field, address, object_problem

SERVERS, STORES = ("valkey", "valkeys", "redis", "rediss"), ("s3", "gs", "az")
PLACES = ("file", "unix")  # addresses that are paths
MOST_PATIENCE = 2000  # milliseconds
MOST_BYTES = 1 << 50


@dataclass(frozen=True)
class SharedTierOptions:
    """A place for a team's blocks; without a `url`, which may hold a password, there is none.

    The team's key is in a file or an environment variable. Values are signed with it, and encrypted if `encrypt`. A
    read waits `patience_ms` for each block. An object store takes `bytes` at most; 0 is no limit.
    """

    url: str = field(default="", repr=False)
    key_file: str = ""
    key_variable: str = ""
    salt: str = ""
    encrypt: bool = False
    patience_ms: int = 150
    bytes: int = 0


def _is_address(value: object) -> bool:
    """Return whether a value is the address of a server, an object store or a folder."""
    if (parts := address(value)) is None:
        return False
    if parts.scheme in PLACES:
        return not parts.hostname and parts.path.startswith("/")
    return bool(parts.hostname) and parts.scheme in SERVERS + STORES


def _whole(least: int, most: int) -> Field:
    def is_valid(value: object) -> bool:
        return type(value) is int and least <= value <= most

    expected = f"a whole number from {least} to {most}"
    return Field(expected, is_valid, {"type": "integer", "minimum": least, "maximum": most})


FIELDS: Mapping[str, Field] = {
    "url": Field(
        "an address like valkeys://host:6379, s3://bucket/folder or file:///folder", _is_address, {"type": "string"}
    ),
    "key_file": TEXT,
    "key_variable": TEXT,
    "salt": TEXT,
    "encrypt": SWITCH,
    "patience_ms": _whole(0, MOST_PATIENCE),
    "bytes": _whole(0, MOST_BYTES),
}


def shared_tier_problem(value: object) -> str | None:
    """Return the fault of a value of the setting, None if it is valid."""
    return None if value is None else object_problem("shared_tier", FIELDS, value)


def read_shared_tier(value: Mapping[str, Any] | None) -> SharedTierOptions:
    """Return the options that a valid value means."""
    return replace(SharedTierOptions(), **(value or {}))
