"""EFIM's fragment tokenization (arXiv 2505.21889): pieces of a text, cut at random, are tokenized apart."""

import random

LONGEST_FRAGMENT = 200


def cut_fragments(text: str, rng: random.Random) -> list[str]:
    """Cut a text into pieces of 1..200 characters, uniformly at random; the last one takes what is left."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        stop = start + rng.randint(1, LONGEST_FRAGMENT)
        pieces.append(text[start:stop])
        start = stop
    return pieces
