"""Where byte-level tokenizers cut a text into pieces that no token crosses, and which of them a longer text keeps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import product

import tokenizers

LONGEST_FRAGMENT = 256  # characters; longer lines are cut at multiples of it

# Between a line end and a line that is not blank: pre-tokenizers like Qwen's and DeepSeek's always cut there.
LINE_CUT = re.compile(r"(?<=[\n\r])(?=[^\S\r\n]*\S)")
# Before the blanks that hold a line end: GPT-2's takes them and the indentation of the next line as one piece, and
# does not count the separators 1C to 1F as blanks.
BREAK_CUT = re.compile(r"(?<=[\S\x1c-\x1f])(?=[^\S\r\n\x1c-\x1f]*[\r\n])")
# As the first, except lines that begin with a slash: gpt-oss' and Tekken's take `;\n//` as one piece.
SLASH_CUT = re.compile(r"(?<=[\n\r])(?!/)(?=[^\S\r\n]*\S)")

# What tokens that cross such a cut would spell.
ACROSS_CUT = {
    LINE_CUT: re.compile(rb"[\n\r][^\n\r]"),
    BREAK_CUT: re.compile(rb"[^\s][ \t]*[\n\r]"),
    SLASH_CUT: re.compile(rb"[\n\r][^\n\r/]"),
}
PROBE_ENDS, PROBE_BREAKS = (
    ("a", ")", "1", "é", "{}", ";"),
    ("\n", "\r\n", "\r", "\n\n", "  \n", " \r\n\r\n", "\n  \n"),
)
PROBE_INDENTS, PROBE_STARTS = ("", " ", "    ", "\t", "\t\t "), ("b", "(", "2", "_c", "é", "#", "'s", "/", "//")
PROBE = "".join(map("".join, product(PROBE_ENDS, PROBE_BREAKS, PROBE_INDENTS, PROBE_STARTS)))

# How a line may go on where that moves a cut before the cursor, and such lines: contractions, letters without a case,
# slashes behind a line end, the blanks of an indentation. And texts whose beginnings can have other pieces alone.
CONTINUATIONS = ("    b", "\tb", "(", "/", "l", "e", "s", "t", "'s", "Ab", "1", " ", "\u0301")
CONTINUED = (
    "x'",
    "x'v",
    "x'r",
    "x'l",
    "it's",
    "A日B",
    "日B",
    "a)",
    "a;\n",
    "a;\n/",
    "a\n",
    "a\n\n",
    "a\r\n",
    "a \n ",
)
PARTED = ("a\n\tb", "a\n b", "a \tb", "a\t\tb", "a\n\n  b", "a  b", "\n\tb", "(\t\t(")


def fragments(text: str, cut: re.Pattern[str] = LINE_CUT) -> list[str]:
    """Cut once for every non-blank line, and inside lines of more than 256 characters; joined they are the text."""
    return [
        piece[at : at + LONGEST_FRAGMENT]
        for piece in cut.split(text)
        for at in range(0, len(piece), LONGEST_FRAGMENT)
    ]


class Pieces:
    """The pieces of texts: the added tokens that are text, and what the pre-tokenizer cuts between them.

    If a text goes on, there may be other pieces before the cursor, too. Tried are the ways to go on that move a cut
    with this tokenizer, and the rests of unfinished added tokens.
    """

    def __init__(self, bpe: tokenizers.Tokenizer) -> None:
        """Take added tokens and pre-tokenizer of a tokenizer that reads texts unchanged."""
        self._pre = bpe.pre_tokenizer
        texts = (token.content for token in bpe.get_added_tokens_decoder().values() if not token.special)
        self._texts = sorted(texts, key=len)
        self._added = re.compile("|".join(map(re.escape, reversed(self._texts)))) if self._texts else None
        self._rests = {text[:end]: text[end:] for text in self._texts for end in range(1, len(text))}
        self._differ_alone = any(not self._stand_alone(text) for text in PARTED)
        self._probe_cuts = {*self.starts(PROBE)}
        self._moving = list[str]()
        for rest in CONTINUATIONS:
            tried = [*self._moving, rest]
            if any(self._settled(text, tried) < self._settled(text, self._moving) for text in CONTINUED):
                self._moving = tried

    def starts(self, text: str) -> list[int]:
        """Return where the pieces of a text begin, in characters; none where there is no pre-tokenizer."""
        found, at = list[int](), 0
        for match in self._added.finditer(text) if self._added else ():
            found += [*self._cuts(text, at, match.start()), match.start()]
            at = match.end()
        return found + self._cuts(text, at, len(text))

    def settled(self, text: str) -> int:
        """Return where the pieces end that stay as they are, however the last line of a text goes on.

        The last piece stays only if it ends a line.
        """
        return self._settled(text, [*self._moving, *self._begun(text)])

    def are_cut_at(self, cut: re.Pattern[str]) -> bool:
        """Return whether there is a cut wherever `cut` is, judged by a text with all kinds of line ends."""
        is_cut = {match.start() for match in cut.finditer(PROBE)} <= self._probe_cuts
        return is_cut and not any(ACROSS_CUT[cut].search(text.encode()) for text in self._texts)

    @property
    def cross_lines(self) -> bool:
        """Whether an added token holds a line end."""
        return any(re.search(r"[\r\n]", text) for text in self._texts)

    def _settled(self, text: str, rests: Sequence[str]) -> int:
        """Return the last cut before which a text with any rest, and what stands there alone, have its pieces."""
        starts, longer = self.starts(text), [self.starts(text + rest) for rest in rests]
        cuts = [*starts, len(text)] if text.endswith(("\n", "\r")) else starts
        for count, cut in reversed([*enumerate(cuts)]):
            same = all(other[: count + 1] == cuts[: count + 1] for other in longer)
            if same and (not self._differ_alone or self.starts(text[:cut]) == starts[:count]):
                return cut
        return 0

    def _stand_alone(self, text: str) -> bool:
        """Return whether what stands before each piece has the same pieces without what follows."""
        starts = self.starts(text)
        return all(self.starts(text[:cut]) == starts[:count] for count, cut in enumerate(starts))

    def _begun(self, text: str) -> Iterator[str]:
        """Yield the rests of added tokens that a text ends in."""
        longest = len(self._texts[-1]) if self._texts else 0
        ends = (self._rests.get(text[-size:]) for size in range(1, min(longest, len(text) + 1)))
        return (rest for rest in ends if rest is not None)

    def _cuts(self, text: str, start: int, end: int) -> list[int]:
        """Return where the pre-tokenizer cuts a part of a text that begins there and is read by itself."""
        if self._pre is None or start == end:
            return []
        return [start + at for _, (at, _) in self._pre.pre_tokenize_str(without_surrogates(text[start:end]))]


def exact_cut(pieces: Pieces, token_bytes: Collection[bytes]) -> re.Pattern[str]:
    """Return the first of the cuts that changes no token.

    A cut changes no token if there is a cut between pieces anyway, or if no token crosses it. If none is exact, the
    first is as good as another.
    """
    for cut, across in ACROSS_CUT.items():
        if pieces.are_cut_at(cut) or not any(across.search(token) for token in token_bytes):
            return cut
    return LINE_CUT


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which LSP's JSON can carry, one by one: a tokenizer does not take them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
