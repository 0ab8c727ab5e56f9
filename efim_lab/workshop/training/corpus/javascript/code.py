"""Judges and cleans the text of TypeScript and JavaScript files, and finds the examples in their comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from efim_lab.workshop.training.corpus import filters
from efim_lab.workshop.training.corpus.comments import clean_comments, parsed_code

# What compilers and bundlers write, and people do not.
_COMPILED = re.compile(
    r"__esModule\b|\bsourceMappingURL=|@__PURE__|#__PURE__|\b_interopRequire\w+|\b__(?:awaiter|generator|extends|rest|"
    r"importDefault|importStar|decorate|spreadArray|publicField)\b|\b_(?:extends|inherits\w*|createClass|classCallCheck|"
    r"defineProperty|objectSpread\d?|objectWithoutProperties\w*|asyncToGenerator|slicedToArray|jsx|jsxs)\(|"
    r"\b__webpack_require__\b|^var _\w+ = require\(|\bregeneratorRuntime\b|"
    r"from [\"'](?:tslib|@babel/runtime|@swc/helpers)",
    re.MULTILINE,
)
_JSX = re.compile(r"/>|</[A-Za-z>]")
_COMMENT = re.compile(r"/\*\*.*?\*/", re.DOTALL)
_STAR = re.compile(r"^[ \t]*\*(?!/) ?|^[ \t]*/\*\*|\*/[ \t]*$", re.MULTILINE)
_FENCED = re.compile(r"^([ \t]*)```[ \t]*(?:js|jsx|javascript|ts|tsx|typescript)\b[^\n]*\n(.*?)^\1```", re.S | re.M)
_EXAMPLE = re.compile(r"^[ \t]*@example\b[^\n]*\n((?:(?![ \t]*@\w)[^\n]*\n)+)", re.MULTILINE)
_STATEMENT = re.compile(r"[({=]|^import\b", re.MULTILINE)


def looks_written(text: str) -> bool:
    """Judge as for any language, and by what compilers leave, whether a text is written by hand."""
    return filters.looks_written(text) and not _COMPILED.search(text)


def clean(text: str) -> str:
    r"""Remove comments for tools, notices and names of authors from a file whose lines end with \n."""
    return clean_comments(text, _dialect(text))


def snippets(text: str) -> Iterator[str]:
    """Yield the blocks of code in a file's documentation, and its examples without such blocks, if they are code."""
    for comment in _COMMENT.findall(text):
        if "```" not in comment and "@example" not in comment:
            continue
        prose = _STAR.sub("", comment) + "\n"
        blocks = [found[2] for found in _FENCED.finditer(prose)] or _EXAMPLE.findall(prose)
        for code in (textwrap.dedent(block).strip() for block in blocks):
            if _STATEMENT.search(code) and not parsed_code(code.encode(), _dialect(code)).root_node.has_error:
                yield code


def _dialect(text: str) -> str:
    """Return LSP's name of the language that a text of this family is parsed as."""
    return "typescriptreact" if _JSX.search(text) else "typescript"
