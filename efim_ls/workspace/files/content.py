"""What the index keeps of a text: its token ids, an outline to look names up, and its words to find similar code."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal, NamedTuple

from efim_ls.text.outline import Outline, outline
from efim_ls.workspace.files.discovery import SourceFile
from model_runtime.ids import Ids

Kept = Literal["ids", "outlines", "passages"]  # what an index keeps of texts, each with all before it

DIGEST_BYTES = 16
PASSAGE_LINES = 40  # about a screen
LONGEST_WORD = 64  # characters; longer ones are data
WORD = re.compile(rf"[^\W\d]\w{{0,{LONGEST_WORD - 1}}}")
# The full-text index takes no notice of case: a sign before each capital letter keeps `Name` and `name` apart.
CAPITAL, CAPITAL_SIGN = re.compile("[A-Z]"), "^"


class SearchText(NamedTuple):
    """What names are looked up in, and similar code found in.

    `passages` are the distinct words of each 40 `lines`, as they are indexed; none of no lines if only names matter.
    """

    lines: int
    outline: Outline
    passages: tuple[str, ...]


class Content(NamedTuple):
    """The data derived from a text alone; `search` only for an index that keeps more than token ids."""

    ids: Ids
    search: SearchText | None = None


class IndexedFile(NamedTuple):
    """A file for the index, with the digest of its text.

    Without `content` the index takes its data for this digest. Nothing of a `private` file reaches the disk.
    """

    file: SourceFile
    digest: bytes
    content: Content | None
    private: bool = False


def digest_of(text: str, family: str = "") -> bytes:
    """Return the BLAKE2b-128 of a text, and of the family of languages whose tokenizer alone gives it its ids."""
    salt = blake2b(family.encode(), digest_size=blake2b.SALT_SIZE).digest() if family else b""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES, salt=salt).digest()


def content_of(text: str, language: str, ids: Ids, keeps: Kept) -> Content:
    """Return what an index keeps of a text with these token ids."""
    match keeps:
        case "ids":
            return Content(ids)
        case "outlines":
            return Content(ids, SearchText(0, outline(text, language), ()))
        case "passages":
            return Content(ids, search_text(text, language))


def search_text(text: str, language: str) -> SearchText:
    """Return the words and the outline of a text, to search it."""
    lines = text.split("\n")
    passages = ("\n".join(lines[at : at + PASSAGE_LINES]) for at in range(0, len(lines), PASSAGE_LINES))
    words = (" ".join(dict.fromkeys(WORD.findall(each))) for each in passages)
    return SearchText(len(lines), outline(text, language), tuple(map(indexed_form, words)))


def indexed_form(words: str) -> str:
    """Return words as they stand in the full-text index."""
    return CAPITAL.sub(rf"{CAPITAL_SIGN}\g<0>", words.replace("\0", " "))
