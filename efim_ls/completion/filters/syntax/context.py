"""The code above a suggestion that is parsed with it: enough to know its blocks, and short enough for every key."""

from __future__ import annotations

import re

from efim_ls.completion.filters.place import Place, indent_of

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
    if place.language == "python":
        headers = _python_headers(indent_of((place.before + text).partition("\n")[0]), outermost)
    else:
        headers = _headers(place.above[-FARTHEST:-REACH].splitlines(), outermost)
    return None if headers is None else headers + near[first:]


def _python_headers(own: str, outermost: str) -> str:
    """Return headers that open a block at the outermost indentation and, if it is deeper, the cursor's."""
    levels = sorted({"", own} if len(own) < len(outermost) else {""}, key=len) if outermost else []
    return "".join(f"{level}class _:\n" for level in levels)


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
    """Return the first lines up to one that opens a block."""
    for count, line in enumerate(lines, 1):
        if line.rstrip().endswith("{"):
            return "".join(f"{each}\n" for each in lines[:count])
    return ""
