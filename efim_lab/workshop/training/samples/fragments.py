"""EFIM's fragment tokenization (arXiv 2505.21889): a text is cut at random and its pieces tokenized separately."""

import random

LONGEST_FRAGMENT = 200


def cut_fragments(text: str, rng: random.Random) -> list[str]:
    """Cut a text into pieces of 1 to 200 characters, uniformly at random; the last piece is the remainder."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        stop = start + rng.randint(1, LONGEST_FRAGMENT)
        pieces.append(text[start:stop])
        start = stop
    return pieces
