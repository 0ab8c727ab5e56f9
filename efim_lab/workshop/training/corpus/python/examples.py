"""Finds the examples in docstrings: doctests, and blocks of code."""

import ast
import doctest
import inspect
import re
import textwrap
from collections.abc import Iterator

from efim_lab.workshop.training.corpus.python.cleanup import parsed, without_tool_comments

_HINT = re.compile(r">>> |::\s*\n|```")
_FENCED = re.compile(r"^([ \t]*)```[ \t]*(?:py|python|python3)\b[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(
    r"^([ \t]*)(?:\.\. (?:code-block|code|sourcecode|testcode)::[ \t]*(?:python3?)?[ \t]*\n(?:\1[ \t]+:[^\n]*\n)*"
    r"|(?![ \t]*\.\. )[^\n]*::[ \t]*\n)"
    r"(?:[ \t]*\n)+((?:\1[ \t]+[^\n]*\n|[ \t]*\n)+)",
    re.MULTILINE,
)
_PROSE = (ast.Expr, ast.Pass)  # statements that prose or data may be, too
_PARSER = doctest.DocTestParser()


def snippets(text: str) -> Iterator[str]:
    """Yield the examples in a file's docstrings."""
    for docstring in _docstrings(text):
        yield from _snippets(docstring)


def _docstrings(text: str) -> Iterator[str]:
    if not _HINT.search(text):
        return
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring and _HINT.search(docstring):
                yield inspect.cleandoc(docstring) + "\n"


def _snippets(docstring: str) -> Iterator[str]:
    """Yield a docstring's doctests as one snippet without prompts and outputs, then each of its code blocks."""
    blocks = [found[2] for pattern in (_FENCED, _DIRECTIVE) for found in pattern.finditer(docstring)]
    for snippet in (_doctests(docstring), *blocks):
        code = without_tool_comments(textwrap.dedent(snippet)).strip()
        if code and ">>> " not in code and _is_code(code):
            yield code


def _doctests(docstring: str) -> str:
    """Return the inputs of a docstring's doctests; a blank line stands where the text between them speaks."""
    if ">>> " not in docstring:
        return ""
    try:
        parts = _PARSER.parse(docstring)
    except ValueError:  # its indentation is not a doctest's
        return ""
    code = ""
    for part in parts:
        if isinstance(part, str):
            code += "\n" if part.strip() and code else ""
        elif part.exc_msg is None and not _only_shows(part.source):
            code += part.source
    return code


def _only_shows(source: str) -> bool:
    """Return whether an input is a bare name, there to print its value, or not Python."""
    body = parsed(source).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Name | ast.Attribute) for node in body)


def _is_code(snippet: str) -> bool:
    """Return whether a snippet is Python that does something: more than names and data."""
    body = parsed(snippet).body
    return any(not isinstance(node, _PROSE) or isinstance(getattr(node, "value", None), ast.Call) for node in body)
