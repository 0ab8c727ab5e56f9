"""A suggestion parsed behind the code that it continues, and where that code first fails to parse."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from tree_sitter import Language, LogType, Parser, Point, Tree

from efim_ls.completion.filters.place import Place, indent_of
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.brackets import here_documents, without_documents
from efim_ls.text.grammars import grammar_of
from model_runtime.engine.stops import is_closers

REACH = 2000  # characters above the cursor's line, parsed in a fifth of a millisecond
FARTHEST = 20000  # characters above it where the headers of blocks that begin before these are looked for
# A line that can begin a statement, unlike a clause, a label, a closer, a comment or an argument.
_STATEMENT = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?!(?:else|elif|except|finally|catch|case|where)\b|(?:default|public|private|protected)[ \t]*:)"
    r"[\w@](?:.*[^,\s])?[ \t]*$",
    re.MULTILINE,
)
_HEADER_LINES = 10  # of which the last opens the block
_BLANKS = re.compile(rb"[\s\\]*")
_PARSED_TO = re.compile(r"process version:\d+, version_count:\d+, state:\d+, row:(\d+), col:(\d+)")
_CLOSERS = {b"(": b")", b"[": b"]", b"{": b"}"}
# Brackets, line ends, comments and strings; the last group matches in a comment or string that is not closed.
_PARTS = rb'''[][(){}\n]
    | """(?:\\.|(?!""").)*(?:"""|(\Z)) | \'''(?:\\.|(?!\''').)*(?:\'''|(\Z)) | `(?:\\.|[^\\`])*(?:`|(\Z))
    | "(?:\\.|[^\\\n"])*(?:"|(?=\n)|(\Z)) | '(?:\\.|[^\\\n'])*(?:'|(?=\n)|(\Z))'''
_HASH = rb"\#[^\n]* | " + _PARTS
_SLASHES = rb"//[^\n]* | /\*.*?(?:\*/|(\Z)) | " + _PARTS
_LAST_BRACE = re.compile(rb"\}(?=[}\n]|\Z)")  # unless it ends an expression in brackets
_OPENING = re.compile(rb"/\*|\"\"\"|'''|.")


@dataclass(frozen=True)
class OpenCode:
    """The starts of lines outside strings, what would close the code, and where a string or comment begins in it
    that is not closed (None without one).
    """

    lines: list[int]
    closers: bytes
    open_string: int | None


def open_code(code: bytes, language: str) -> OpenCode:
    """Return what a piece of code leaves open; its comments begin with `#`, or else are C's."""
    lines, brackets, open_string = [0], list[bytes](), None
    closers, of, begun = b"", LANGUAGES[language], list[int]()
    if of.here_document:
        text = code.decode("latin-1")  # a character is a byte
        for mark, first, end in here_documents(text, language):
            if end is None or ";" in text[mark.end() : first]:  # which Bash's grammar does not read
                begun.append(mark.start())
        code = without_documents(text, language)[0].encode("latin-1")
    blocks = of.word_blocks
    for part in _parts(language).finditer(code):
        text = part[0]
        if text == b"\n":
            lines.append(part.end())
        elif text in _CLOSERS:
            brackets.append(_CLOSERS[text])
        elif brackets and text == brackets[-1]:
            brackets.pop()
        elif blocks and (kind := part.lastgroup):
            closer = part[kind].decode() if kind == "closes" else blocks.closers[part[kind].decode()]
            line = f"\n{blocks.line.format(closer)}\n".encode()
            if kind != "closes":
                brackets.append(line)
            elif brackets and brackets[-1] == line:
                brackets.pop()
        elif part.lastindex and (opening := _OPENING.match(text)):
            open_string = part.start()
            closers = b"*/" if opening[0] == b"/*" else opening[0]
    begun += [] if open_string is None else [open_string]
    closers += b"".join(reversed(brackets))
    return OpenCode(lines, _LAST_BRACE.sub(b"};", closers) if of.closed_types else closers, min(begun, default=None))


@lru_cache(16)
def _parts(language: str) -> re.Pattern[bytes]:
    of = LANGUAGES[language]
    usual = _HASH if of.comment == "#" else _SLASHES
    if of.long_quotes:
        usual = usual.replace(rb"|(?=\n)", b"").replace(rb"\n\"", b'"').replace(rb"\n'", b"'")
    first = [each for each in (of.skipped, of.word_blocks.words if of.word_blocks else "") if each]
    return re.compile(b" | ".join([*(each.encode() for each in first), usual]), re.DOTALL | re.VERBOSE)


class _ParsedLines(NamedTuple):
    """Code that ends with a line, its syntax tree with open brackets closed by `closers`, and whether it parses."""

    code: bytes
    closers: bytes
    tree: Tree
    parse: bool

    def edited(self, code: bytes) -> Tree:
        """Return the tree edited for other code that begins with these lines, to parse only the new part."""
        start, row, new = len(self.code), self.code.count(b"\n"), code[len(self.code) :]
        end = Point(row + new.count(b"\n"), len(new) - new.rfind(b"\n") - 1)
        edited = self.tree.copy()
        closed = Point(row + self.closers.count(b"\n"), len(self.closers) - self.closers.rfind(b"\n") - 1)
        edited.edit(start, start + len(self.closers), len(code), Point(row, 0), closed, end)
        return edited


@dataclass(frozen=True)
class ParsedSuggestion:
    """Code that ends with a suggestion, at the bytes `start` to `end`, and with the closers right of the cursor."""

    grammar: Language
    language: str
    code: bytes
    start: int
    end: int

    @cached_property
    def tree(self) -> Tree:
        """The syntax tree of the code, with open brackets closed."""
        code, parser = self.code + self._open.closers, Parser(self.grammar)
        return parser.parse(code, self._lines_above.edited(code)) if self._lines_above.parse else parser.parse(code)

    @cached_property
    def sound_tree(self) -> Tree:
        """The tree of the lines before the first error of `tree`; an error may distort what comes before it."""
        return (
            Parser(self.grammar).parse(self.code[: self._sound_end]) if self.tree.root_node.has_error else self.tree
        )

    @property
    def known_end(self) -> int:
        """Where the suggestion ends, or a string begins in it that is not closed and may be prose."""
        return self.end if self._open.open_string is None else min(self.end, self._open.open_string)

    @cached_property
    def begins_well(self) -> bool:
        """Whether the suggestion is not in a string, and the code before it parses."""
        if self.known_end < self.start:
            return False
        if not self.tree.root_node.has_error:
            return True
        return self._lines_above.parse and (self.error is None or self.error >= self.start)

    @cached_property
    def breaks_off(self) -> bool:
        """Whether the code ends within a statement, or an element of a bracket open above the cursor's line."""
        opened = not self._lines_above.closers.endswith(self._open.closers)
        return opened or (self._lines_above.parse and self.tree.root_node.has_error)

    @property
    def ends_block(self) -> bool:
        """Whether something stands in the block with which the code ends, if it ends with one."""
        node = self.tree.root_node
        while node.children:
            node = node.children[-1]
        return node.type != "block"

    @cached_property
    def error(self) -> int | None:
        """The offset of the first token that cannot stand in its place; None if the code could go on well."""
        if not self.tree.root_node.has_error:
            return None
        at = self._failure
        return at if at is not None and at < self.known_end else None

    def may_be_right(self, at: int) -> bool:
        """Return whether an error at an offset is none if macros are known, or what lies far above.

        A name in its statement, up to its line's end, may mean any code, and a brace at the margin may close a block
        whose lines are not deeper than its head.
        """
        expanded = LANGUAGES[self.language].expanded
        if expanded and self.code[at : at + 1] == b"}" and self.code[at - 1 : at] in (b"", b"\n"):
            return True
        start = max(self.code.rfind(sign, 0, at) for sign in (b";", b"{", b"}")) + 1
        end = self.code.find(b"\n", at)
        return expanded is not None and bool(expanded.search(self.code, start, len(self.code) if end < 0 else end))

    def text(self, end: int) -> str:
        """Return the part of the suggestion before an offset."""
        return self.code[self.start : end].decode(errors="surrogatepass")

    @cached_property
    def _open(self) -> OpenCode:
        return open_code(self.code, self.language)

    @cached_property
    def _lines_above(self) -> _ParsedLines:
        """The code above the cursor's line."""
        return _parsed_lines(self.grammar, self.language, self.code[: self.code.rfind(b"\n", 0, self.start) + 1])

    @cached_property
    def _sound_end(self) -> int:
        node = self.tree.root_node
        while within := next((child for child in node.children if child.has_error or child.is_missing), None):
            node = within
        lines = self._open.lines
        return lines[bisect_right(lines, node.start_byte) - 1]

    @cached_property
    def _failure(self) -> int | None:
        """The offset of the first token at which parsing fails, not counting that the code ends.

        Code that may go on makes errors in the tree, too. The parser's log tells the two apart. Each of its entries
        costs a call, so the lines above the cursor's are not parsed again.
        """
        reached: re.Match[str] | None = None
        failed: re.Match[str] | None = None

        def note(kind: LogType, message: str) -> None:
            nonlocal reached, failed
            if failed is None and kind == LogType.PARSE:
                reached = _PARSED_TO.match(message) or reached
                if message.startswith("resume "):  # every way to parse the code has ended in an error
                    failed = reached

        Parser(self.grammar, logger=note).parse(self.code, self._lines_above.edited(self.code))
        if failed is None:
            return None
        line = 0
        for _ in range(int(failed[1])):
            line = self.code.index(b"\n", line) + 1
        blanks = _BLANKS.match(self.code, line + int(failed[2]))
        return blanks.end() if blanks else None


def parse(text: str, place: Place) -> ParsedSuggestion | None:
    """Return a suggestion as parsed code, if the language has a grammar.

    None if the cursor is in a string, or if what stands before the suggestion does not parse.
    """
    parsed = read(text, place)
    return parsed if parsed and parsed.begins_well else None


def read(text: str, place: Place) -> ParsedSuggestion | None:
    """Return a suggestion to be parsed, wherever it begins; None if the language has no grammar."""
    grammar = grammar_of(place.language)
    context = context_of(text, place) if grammar else None
    if grammar is None or context is None:
        return None
    rest = place.rest if is_closers(place.rest) else ""
    return _parse(grammar, place.language, context + place.before, text, rest)


@lru_cache(maxsize=4)  # they stay while a line is typed
def _parsed_lines(grammar: Language, language: str, code: bytes) -> _ParsedLines:
    closers = open_code(code, language).closers
    tree = Parser(grammar).parse(code + closers)
    return _ParsedLines(code, closers, tree, not tree.root_node.has_error)


@lru_cache(maxsize=4)  # filters run over the same text several times
def _parse(grammar: Language, language: str, before: str, text: str, rest: str) -> ParsedSuggestion:
    until, said, after = (part.encode(errors="surrogatepass") for part in (before, text, rest))
    return ParsedSuggestion(grammar, language, until + said + after, len(until), len(until) + len(said))


def context_of(text: str, place: Place) -> str | None:
    """Return the code to parse before the cursor's line, from a statement of the outermost block in reach.

    The headers of the blocks around it come first. None if one of them is too far away.
    """
    near = place.above[-REACH:].replace("\r\n", "\n").replace("\r", "\n")
    if len(place.above) <= REACH:
        return near
    begins = [*_STATEMENT.finditer(near, near.find("\n") + 1)]
    if not begins:
        return None
    outermost = min((begin["indent"] for begin in begins), key=len)
    first = max(begin.start() for begin in begins if begin["indent"] == outermost)
    if indented := LANGUAGES[place.language].indented:
        headers = _scopes(indented.scope, indent_of((place.before + text).partition("\n")[0]), outermost)
    else:
        headers = _headers(place.above[-FARTHEST:-REACH].splitlines(), outermost)
    return None if headers is None else headers + near[first:]


def _scopes(header: str, own: str, outermost: str) -> str:
    """Return headers that open a block at the outermost indentation and, if it is deeper, the cursor's."""
    levels = sorted({"", own} if len(own) < len(outermost) else {""}, key=len) if outermost else []
    return "".join(f"{level}{header}\n" for level in levels)


def _headers(lines: list[str], outermost: str) -> str | None:
    """Return the last headers of lines that open the blocks around an indentation; None if one is not there."""
    headers, depth = "", len(outermost)
    for number in range(len(lines) - 1, -1, -1):
        if not depth:
            break
        indent = len(indent_of(lines[number]))
        if indent < depth and _STATEMENT.match(lines[number]):
            header = _header(lines[number : number + _HEADER_LINES])
            headers, depth = header + headers, indent if header else -1
    return None if depth else headers


def _header(lines: list[str]) -> str:
    """Return the first lines up to a line that opens a block."""
    for count, line in enumerate(lines, 1):
        if line.rstrip().endswith("{"):
            return "".join(f"{each}\n" for each in lines[:count])
    return ""
