r"""Text as models read it: lines end in \n, and there is neither a byte order mark nor half a surrogate pair."""

from __future__ import annotations

import re

MARK = "\ufeff"  # at the beginning of a text
_OTHERWISE = re.compile("[\r\ufeff\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


def is_normalized(text: str) -> bool:
    """Return whether a text is read as it is, at any place in other text."""
    return "\r" not in text if text.isascii() else _OTHERWISE.search(text) is None


def normalized(text: str, start: int = 0, end: int | None = None) -> str:
    """Return a text, or a part of it that no line end crosses, as it is read."""
    part = text[start:end]
    if is_normalized(part):
        return part
    if start == 0:
        part = part.removeprefix(MARK)
    return _HALF.sub("\ufffd", part.replace("\r\n", "\n").replace("\r", "\n"))


def joined(text: str) -> str:
    """Return a text in which halves of surrogate pairs that stand together are one code point."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
