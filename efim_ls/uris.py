"""What a document's URI says of where it is."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from kv_store.names import tag


def file_path(uri: str) -> str | None:
    """The path of a file, with `/` between names; None for what is no file."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None


def document_tag(uri: str) -> int:
    """The tag by which the store knows a document: the same however its client spells the URI."""
    return tag(file_path(uri) or uri)
