"""`efim-ls cache --shared`: list or remove a team's cache."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from urllib.parse import urlsplit

from efim_ls.commands.arguments import counted, object_setting
from efim_ls.failures import Failure, Mistake
from kv_store.shared.opening import open_shelf
from kv_store.shared.shelf import Shelf, ShelfError, ShelfItem

MB = 1e6
DELETED = 1000  # blocks that are removed from a server in one step


def show(setting: str) -> int:
    """Print the number and size of the blocks in a team's cache; raises Failure.

    `setting` is the JSON object of the setting `shared_tier`.
    """
    with _shelf(setting) as (shelf, place):
        print(f"{place}: {_described(list(shelf.scan()))} of your team")
    return 0


def clear(setting: str, is_agreed: bool) -> int:
    """Remove a team's blocks from its cache, if that `is_agreed` or the user says so now; raises Failure."""
    with _shelf(setting) as (shelf, place):
        found = list(shelf.scan())
        if not is_agreed:
            if not sys.stdin.isatty():
                raise Failure("others use this cache, and there is no terminal to confirm on: add --yes to remove it")
            answer = input(f"Remove {_described(found)} that your team uses from {place}? [y/N] ")
            if answer.lower() not in ("y", "yes"):
                return 1
        names = [item.name for item in found]
        removed = sum(shelf.delete(names[at : at + DELETED]) for at in range(0, len(names), DELETED))
        print(f"removed: {counted(removed, 'block')}")
    return 0


@contextmanager
def _shelf(setting: str) -> Generator[tuple[Shelf, str]]:
    """Open what a setting describes, and yield it with its address less any password; raises Failure."""
    named = object_setting("--shared", "shared_tier", setting, {}).shared_tier
    if not named.url:
        raise Mistake("--shared names no 'url': say where the cache is")
    try:
        shelf, _ = open_shelf(asdict(named))
        parts = urlsplit(named.url)
        with closing(shelf):
            yield shelf, parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    except ShelfError as error:
        raise Failure(str(error)) from None


def _described(items: Sequence[ShelfItem]) -> str:
    return f"{counted(len(items), 'block')}, {sum(item.size for item in items) / MB:.1f} MB"
