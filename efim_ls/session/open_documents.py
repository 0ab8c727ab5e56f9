"""What a completion in one document reads of others that are open."""

from __future__ import annotations

from collections.abc import Iterable

from efim_ls.access.rules import Rules
from efim_ls.text.document import Document

# More text slows every token, more files outgrow cached tokens.
OTHERS, CHARACTERS_OF_OTHERS = 32, 200_000


def texts_beside(document: Document, used_last_first: Iterable[Document], rules: Rules) -> tuple[str, ...]:
    """Texts of other documents in its language, the one used last at the end: those that fit, whole."""
    room, texts = CHARACTERS_OF_OTHERS, list[str]()
    for other in used_last_first:
        size = len(other.text)
        alike = other is not document and other.language == document.language and size <= room
        if alike and rules.may_be_read(other.uri, other.language, size):
            room -= size
            texts.append(other.text)
    return tuple(reversed(texts[:OTHERS]))
