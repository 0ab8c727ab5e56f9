"""Finds the programs in Rust's documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from efim_lab.workshop.training.corpus.comments import parsed_code

_DOCUMENTATION = re.compile(r"(?:^[ \t]*//[/!][^\n]*\n)+", re.MULTILINE)
_MARK = re.compile(r"^[ \t]*//[/!] ?", re.MULTILINE)
_FENCED = re.compile(
    r"^```[ \t]*(?:rust|no_run|should_panic|edition\d+|,|[ \t])*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE
)
_HIDDEN = re.compile(r"^([ \t]*)# ?(?=[^!\[]|$)", re.MULTILINE)


def snippets(text: str) -> Iterator[str]:
    """Yield the blocks of Rust in a file's documentation, with the lines that readers do not see."""
    for comment in _DOCUMENTATION.findall(text):
        if "```" not in comment:
            continue
        for block in _FENCED.findall(_MARK.sub("", comment)):
            code = _HIDDEN.sub(r"\1", block).strip("\n")
            if code.strip() and not parsed_code(code.encode(), "rust").root_node.has_error:
                yield code
