"""What a document's URI says of where it is."""

from __future__ import annotations

from urllib.parse import unquote

from kv_store.block import tag


def file_path(uri: str) -> str | None:
    """The path of a file, with `/` between names; None for what is no file.

    Clients send `#` and `?` of names as they are, and any text as a host: nothing here is refused or cut off.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme.lower() != "file":
        return None
    return unquote(rest[rest.find("/", 2) :] if rest.startswith("//") else rest)


def document_tag(uri: str) -> int:
    """The tag by which the store knows a document: the same however its client spells the URI."""
    return tag(file_path(uri) or uri)
