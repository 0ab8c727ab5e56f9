"""Opens the shared tier that options name: the team's key, and the shelf at an address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from kv_store.shared.folder_shelf import FolderShelf
from kv_store.shared.shelf import LARGEST, Shelf, ShelfError
from kv_store.tier import Level, Reach, StoreContext
from kv_store.warn_once import WarnOnce

if TYPE_CHECKING:
    from kv_store.shared.wire import Sealer

LEAST_KEY = 32  # characters of a team's key
SERVERS = ("valkey", "valkeys", "redis", "rediss", "unix")
HOW_TO_MAKE_ONE = "make one with `openssl rand -hex 32`"


class TeamShelf(NamedTuple):
    """A shelf, and what names and seals a team's blocks there."""

    shelf: Shelf
    sealer: Sealer


def open_shelf(options: Mapping[str, Any]) -> TeamShelf:
    """Open the shelf at a `url` with the key of a `key_file` or a `key_variable`; raises ShelfError.

    What else `options` may have: the `salt`, whether to `encrypt`, the `bytes` that an object store may take (0 is no
    limit), and the `block_bytes` that a block has at most.
    """
    key = read_key(options.get("key_file", ""), options.get("key_variable", ""))
    url: str = options["url"]
    try:  # these packages are not installed with each server
        from kv_store.shared.wire import PREFIX, Sealer, sealed_bytes

        sealer = Sealer(key, options.get("salt", ""), options.get("encrypt", False))
        prefix, most_bytes = f"{PREFIX}:{sealer.team}", options.get("bytes") or None
        largest = sealed_bytes(options["block_bytes"]) if "block_bytes" in options else LARGEST
        if urlsplit(url).scheme in SERVERS:
            from kv_store.shared.valkey_shelf import ValkeyShelf

            return TeamShelf(ValkeyShelf(url, prefix, largest), sealer)
        if urlsplit(url).scheme == "file":
            return TeamShelf(FolderShelf(url, prefix, most_bytes, largest), sealer)
        from kv_store.shared.object_shelf import ObjectShelf

        return TeamShelf(ObjectShelf(url, prefix, most_bytes, largest), sealer)
    except ImportError as error:
        needed = f"the shared cache needs the Python package {str(error.name).partition('.')[0]}"
        raise ShelfError(f"{needed}; install it where the server is installed") from None


def open_shared(context: StoreContext, options: Mapping[str, Any]) -> Level | None:
    """Open a team's tier, for blocks of a `form`, or return None if it cannot be used here, which is reported.

    A read waits for each block up to `patience_ms`. What else the options have, `open_shelf` says.
    """
    form, warnings = options["form"], WarnOnce(context.report)
    try:
        shelf, sealer = open_shelf({**options, "block_bytes": context.codec.slot_bytes(form)})
    except ShelfError as error:
        warnings.warn(str(error))
        return None
    from kv_store.shared.shared_tier import SharedTier

    tier = SharedTier(shelf, sealer, warnings)
    return Level(tier, form, behind=True, reach=Reach.NETWORK, patience=options["patience_ms"] / 1e3)


def read_key(file: str, variable: str) -> str:
    """Return the team's key, which is in a file or in an environment variable; raises ShelfError."""
    if variable:
        place, key = f"the environment variable {variable}", os.environ.get(variable, "").strip()
    elif file:
        place = "the file 'key_file' in the setting 'shared_tier'"
        try:
            key = Path(file).expanduser().read_text("utf-8").strip()
        except (OSError, ValueError, RuntimeError) as error:
            raise ShelfError(
                f"the team's key for the shared cache cannot be read ({type(error).__name__}); correct {place}"
            ) from None
    else:
        raise ShelfError(
            f"the shared cache needs a key that all of the team have; {HOW_TO_MAKE_ONE} and name it as 'key_file' in "
            "the setting 'shared_tier'"
        )
    if len(key) < LEAST_KEY:
        raise ShelfError(
            f"the team's key in {place} has less than {LEAST_KEY} characters; {HOW_TO_MAKE_ONE}, the same for all"
        )
    return key
