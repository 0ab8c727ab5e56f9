"""Settings that are objects: `engine`, and `shared_tier`, which says where a team keeps keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from model_runtime.remote.setting import FIELDS, HERE, SWITCH, TEXT, Field, RemoteOptions, address

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


SHARED_TIER: Mapping[str, Field] = {
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


class ObjectKind(NamedTuple):
    """The names that a value may have, each with how it is checked, and whether null stands for an empty one.

    All but the names `without_url` need a `url`.
    """

    fields: Mapping[str, Field]
    may_be_null: bool
    without_url: tuple[str, ...] = ()


# By the class of options that a valid value means.
OBJECTS: Mapping[Any, ObjectKind] = {
    RemoteOptions: ObjectKind(FIELDS, may_be_null=False, without_url=HERE),
    SharedTierOptions: ObjectKind(SHARED_TIER, may_be_null=True),
}
