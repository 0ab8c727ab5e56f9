"""Paths: the cache folder, and the path behind a document's URI."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

import platformdirs

from kv_store.block import tag

HASHES = "hashes.json"  # of models' files, which take seconds to make; next to the models' folders
OVERFLOW = "experts"  # the folder for parts of models that memory has no room for


def cache_folder(setting: str) -> Path:
    """Return the folder for cached files: the folder that a setting names, else the system's cache folder."""
    return Path(os.path.expanduser(setting)) if setting else platformdirs.user_cache_path("efim-ls", appauthor=False)


def file_path(uri: str) -> str | None:
    """Return the path of a file URI, with `/` between names; None if the URI is not a file's.

    Accepts what clients send: unescaped `#` and `?` in names, and any text as the host.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme.lower() != "file":
        return None
    return unquote(rest[rest.find("/", 2) :] if rest.startswith("//") else rest)


def real_path(uri: str) -> str:
    """Return the path of a file URI without links, empty if the URI is not a file's or has no path on this system."""
    path = file_path(uri)
    try:
        return os.path.realpath(path) if path else ""
    except (OSError, ValueError):  # a NUL in the name
        return ""


def document_tag(uri: str) -> int:
    """Return the store's tag for a document: the same however a client spells its URI."""
    return tag(file_path(uri) or uri)
