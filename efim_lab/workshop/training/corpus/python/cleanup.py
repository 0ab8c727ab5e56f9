"""Removes from files what a model should not repeat: comments for tools, licence notices, authors' names."""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator

from efim_lab.workshop.training.corpus.filters import OPENING_NOTICE
from efim_ls.completion.filters.trimming import NOTICE

_COMMENTS = re.compile(r"(?:[^\S\n]*(?:#[^\n]*)?\n)+")
_DOCSTRING = re.compile(r'[rRuU]?("""|\'\'\')(?:(?!\1).)*\1\n*', re.DOTALL)
_TOOLS = (
    r"pragma\b|noqa\b|(?:type|ty):\s*ignore\b|nosec\b|nosonar\b|noinspection\b|nolint\b|skipcq\b|"
    r"doctest:\s*[+-]|fmt:\s*(?:off|on|skip)|"
    r"(?:autopep8|bandit|codespell|cspell|cython|flake8|isort|mypy|pycln|pylint|pyre|pyright|pytype|"
    r"ruff|spell-checker|yapf)\s*:"
)
_EDITORS = (
    r"-\*-.*-\*-|(?:vim?|ex):\s*(?:set?\s|\w+=)|(?:file)?(?:en)?coding\s*[:=]\s*[-\w.]+\s*$|"
    r"local variables:\s*$|end:\s*$"
)
# A pragma ends where the next comment begins: "# noqa: F401  # the public name" keeps the second.
_PRAGMA = re.compile(rf"\s*#+\s*(?:{_TOOLS}|{_EDITORS})(?:(?!\s#\s).)*", re.IGNORECASE | re.MULTILINE)
_METADATA = frozenset(
    """
    __author__ __authors__ __author_email__ __contact__ __contributors__ __copyright__ __credits__ __date__
    __docformat__ __email__ __licence__ __license__ __maintainer__ __maintainer_email__ __revision__ __status__
    """.split()  # noqa: SIM905 - shorter than a list
)
_HAS_METADATA = re.compile(rf"^(?:{'|'.join(sorted(_METADATA))})\s*(?::[^=\n]*)?=", re.MULTILINE)
_LICENCE_TEXT = re.compile(
    rf"{NOTICE.pattern}|licen[sc]e|permission is hereby granted|without warrant|redistributions? (?:and use|of|in)|"
    r"^\s*:?authors?\s*:|^\s*@author|\.\. (?:code|module|section)author::",
    re.IGNORECASE | re.MULTILINE,
)
_DOCSTRING_REACH = 4000  # characters of a file; where a docstring with a licence begins and mostly ends
_QUOTED = re.compile(r'([rRuU]?(?:"""|\'\'\'))(.*)("""|\'\'\')', re.DOTALL)


def clean(text: str) -> str:
    r"""Remove comments for tools, licence notices and authors' names from a file whose lines end with \n.

    Only files to train on are cleaned: those that measure stay as they are met in practice.
    """
    return _without_metadata(without_tool_comments(_without_opening_comments(text))).lstrip("\n")


def without_notices(text: str) -> str:
    """Drop a file's opening comments and docstring if they are about copyright: models repeat such notices."""
    text = _without_opening_comments(text)
    return _without_notice(text, _DOCSTRING)


def _without_opening_comments(text: str) -> str:
    """Drop the comments at a file's start if they are about copyright."""
    return _without_notice(text, _COMMENTS)


def _without_notice(text: str, opening: re.Pattern[str]) -> str:
    found = opening.match(text)
    return text[found.end() :] if found and OPENING_NOTICE.search(found[0]) else text


def without_tool_comments(text: str) -> str:
    """Remove pragmas and blocks of comments about copyright; code and strings are the same as before.

    A line that holds nothing else goes as a whole. A text that is not Python's tokens is returned unchanged.
    """
    if not _PRAGMA.search(text) and not NOTICE.search(text):
        return text
    try:
        comments = [
            token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, SyntaxError):
        return text
    lines = text.split("\n")
    notices = _notice_rows(comments)
    removed: set[int] = set()
    for token in comments:
        row, column = token.start[0] - 1, token.start[1]
        kept = "" if row in notices else _PRAGMA.sub("", token.string).lstrip(" \t")
        if kept == token.string:
            continue
        code = lines[row][:column]
        if kept or code.strip():
            lines[row] = (code + kept).rstrip(" \t\f")
        elif row == 0 or not lines[row - 1].endswith("\\"):
            removed.add(row)
    return "\n".join(_without_rows(lines, removed))


def parsed(text: str) -> ast.Module:
    """Parse a text; return an empty module if it is not Python."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of invalid escapes in others' strings
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _notice_rows(comments: list[tokenize.TokenInfo]) -> set[int]:
    """Return the rows of comment blocks, each from a line's start, that are about copyright."""
    blocks: list[list[tokenize.TokenInfo]] = []
    for token in comments:
        if token.start[1] > 0:
            continue
        if blocks and blocks[-1][-1].start[0] == token.start[0] - 1:
            blocks[-1].append(token)
        else:
            blocks.append([token])
    about = [block for block in blocks if NOTICE.search("\n".join(token.string for token in block))]
    return {token.start[0] - 1 for block in about for token in block}


def _without_rows(lines: list[str], removed: set[int]) -> Iterator[str]:
    """Yield the other lines; of the blank lines before and after a removed one, the longer run stays."""
    removing, blank, since = False, 0, 0  # blank lines yielded last, and those met since a removed line
    for row, line in enumerate(lines):
        if row in removed:
            removing, since = True, 0
        elif line.strip():
            removing, blank = False, 0
            yield line
        else:
            since += 1
            if not removing or since > blank:
                blank += 1
                yield line


def _without_metadata(text: str) -> str:
    """Remove the module's dunder names about its authors, and its docstring's paragraphs about its licence."""
    if not _HAS_METADATA.search(text) and not _LICENCE_TEXT.search(text[:_DOCSTRING_REACH]):
        return text
    body = parsed(text).body
    lines = text.split("\n")
    removed: set[int] = set()
    for before, statement, after in zip([None, *body], body, [*body[1:], None], strict=False):
        rows = range(statement.lineno - 1, statement.end_lineno or statement.lineno)
        if (before and (before.end_lineno or 0) > rows[0]) or (after and after.lineno <= rows[-1] + 1):
            continue  # another statement on the same line
        if _is_metadata(statement, text):
            removed.update(rows)
        elif not before and (kept := _without_licence("\n".join(lines[rows[0] : rows[-1] + 1]))) is not None:
            lines[rows[0]] = kept
            removed.update(rows[bool(kept) :])
    return "\n".join(_without_rows(lines, removed))


def _is_metadata(statement: ast.stmt, text: str) -> bool:
    """Return whether a statement sets a name in METADATA that the file uses nowhere else."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    names = [target.id for target in targets if isinstance(target, ast.Name) and target.id in _METADATA]
    return len(names) == len(targets) and all(text.count(name) == 1 for name in names)


def _without_licence(source: str) -> str | None:
    """Return a docstring without its paragraphs about a licence, "" if all are; None if there is nothing to do."""
    quoted = _QUOTED.fullmatch(source.strip())
    if not quoted or not _LICENCE_TEXT.search(quoted[2]):
        return None
    paragraphs = re.split(r"\n(?:[ \t]*\n)+", quoted[2])
    kept = "\n\n".join(part for part in paragraphs if not _LICENCE_TEXT.search(part))
    if not kept.strip():
        return ""
    end = "\n" if "\n" in kept and not kept.endswith("\n") else ""
    return f"{quoted[1]}{kept}{end}{quoted[3]}"
