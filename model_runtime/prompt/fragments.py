"""Cuts texts where their parts, tokenized apart, give the tokens of the whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import product

LONGEST_FRAGMENT = 256  # characters; longer lines are cut at multiples of it

# Between a line end and a line that is not blank: pre-tokenizers like Qwen's and DeepSeek's always cut there.
LINE_CUT = re.compile(r"(?<=[\n\r])(?=[^\S\r\n]*\S)")
# Before the blanks that hold a line end: GPT-2's takes them and the indentation of the next line as one piece, and
# does not count the separators 1C to 1F as blanks.
BREAK_CUT = re.compile(r"(?<=[\S\x1c-\x1f])(?=[^\S\r\n\x1c-\x1f]*[\r\n])")

# What tokens that cross such a cut would spell.
ACROSS_CUT = {LINE_CUT: re.compile(rb"[\n\r][^\n\r]"), BREAK_CUT: re.compile(rb"[^\s][ \t]*[\n\r]")}
PROBE_ENDS, PROBE_BREAKS = (
    ("a", ")", "1", "é", "{}", ";"),
    ("\n", "\r\n", "\r", "\n\n", "  \n", " \r\n\r\n", "\n  \n"),
)
PROBE_INDENTS, PROBE_STARTS = ("", " ", "    ", "\t", "\t\t "), ("b", "(", "2", "_c", "é", "#", "'s")


def fragments(text: str, cut: re.Pattern[str] = LINE_CUT) -> Iterator[str]:
    """Cut once for every non-blank line, and inside lines of more than 256 characters; joined they are the text."""
    for piece in cut.split(text):
        for at in range(0, len(piece), LONGEST_FRAGMENT):
            yield piece[at : at + LONGEST_FRAGMENT]


def exact_cut(boundaries: Callable[[str], set[int]], token_bytes: Collection[bytes]) -> re.Pattern[str]:
    """Return the first of the two cuts that changes no token.

    A cut changes no token if the pre-tokenizer cuts there anyway, judged by its `boundaries` in a text with all kinds
    of line ends, or if no token crosses it. If neither cut is exact, the first is as good as the other.
    """
    probe = "".join(map("".join, product(PROBE_ENDS, PROBE_BREAKS, PROBE_INDENTS, PROBE_STARTS)))
    found = boundaries(probe)
    for cut, across in ACROSS_CUT.items():
        places = {match.start() for match in cut.finditer(probe)}
        if places <= found or not any(across.search(token) for token in token_bytes):
            return cut
    return LINE_CUT
