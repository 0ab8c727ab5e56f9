"""Texts for the users to work on: pieces of files as long as the model's context allows, at most the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from random import Random

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from model_runtime.errors import ModelError
from model_runtime.prompt.tokenizer import Tokenizer

LONGEST_TEXT = 4096  # tokens of a text; the paper's have 2,048 to 4,096
SPARE = 35  # tokens for the markers and for words that a cut splits into more tokens
LEAST_LONGEST_TEXT = 64  # tokens; a shorter limit on texts leaves nothing to measure


def longest(context: int, tokens: int) -> int:
    """Return the most tokens of a text that leave room for `tokens` new ones; raises ModelError if too few."""
    most = min(LONGEST_TEXT, context - tokens - SPARE)
    if most < LEAST_LONGEST_TEXT:
        limits = f"a context of {context} tokens has no room for {tokens} new ones after a prompt"
        raise ModelError(f"{limits}: lower --tokens or use a model with a longer context")
    return most


def choose_texts(documents: Sequence[CodeDocument], tokenizer: Tokenizer, users: int, most: int) -> list[str]:
    """Choose a text of `most // 2` to `most` tokens for each user, from as many files as there are; reproducible.

    Raises WorkError if the documents have too few.
    """
    random = Random(0)
    pieces = [_pieces(document.text, tokenizer, most, random) for document in documents]
    in_turn = chain.from_iterable(zip_longest(*pieces))
    texts = [text for text, _ in zip(filter(None, in_turn), range(users), strict=False)]
    if len(texts) < users:
        found = f"the data has {len(texts)} texts of {most // 2:,} tokens or more, for {users} users"
        raise WorkError(f"{found}: name a folder with more code in --data, or lower --users")
    return texts


def _pieces(text: str, tokenizer: Tokenizer, most: int, random: Random) -> Iterator[str]:
    """Cut a file where its fragments end; a remainder that is too short is left out."""
    piece, length, size = "", 0, random.randint(most // 2, most)
    for fragment, count in tokenizer.pieces(text):
        if length + count > size:
            if length >= most // 2:
                yield piece
            piece, length, size = "", 0, random.randint(most // 2, most)
        piece, length = piece + fragment, length + count
    if length >= most // 2:
        yield piece
