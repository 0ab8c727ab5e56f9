"""Short filters: copyright notices, comments that silence tools, trailing blanks, and too many lines."""

from __future__ import annotations

import re

from efim_ls.completion.filters.place import Place, beginning

NOTICE = re.compile(r"copyright|licen[sc]ed? under|all rights reserved|spdx-", re.IGNORECASE)
# Comments by which tools leave a line or a file alone.
_SILENCED = r"""
    pragma:\s*no\s*(?:cover|branch) | type:\s*ignore | noqa\b | nosec\b | NOSONAR | NOLINT | nolint\b
    | (?:pylint|rubocop|swiftlint|shellcheck|phpcs|stylelint-|eslint-|tslint):?\s*(?:disable|ignore)
    | (?:pyright|ty|pyre-|flake8|biome-|prettier-|deno-lint-|oxlint-)(?::\s*|[\w-]*)(?:ignore|noqa) | mypy:
    | (?:fmt|yapf|isort):\s*(?:off|skip|disable) | @ts-(?:ignore|expect-error|nocheck) | noinspection\b
    | (?:istanbul|c8|v8)\s+ignore | clang-format\s+off | lint:ignore
"""
_SILENCER = re.compile(rf"[ \t]*(?:\#|//|/\*|--)[ \t]*(?:{_SILENCED})", re.VERBOSE)
_COMMENT = re.compile(r"(?:^|\s)(?:#|//|/\*|--)")


def silencers(text: str, place: Place) -> str:
    """End before a comment that silences a tool, such as `# noqa`, unless the user has started a comment there."""
    start = text.find("\n") if _COMMENT.search(place.before) else 0
    found = _SILENCER.search(text, start) if start >= 0 else None
    return beginning(text, found.start(), place) if found else text


def notices(text: str, place: Place) -> str:
    """Drop a copyright or licence notice if the file has none: many files in the training data have one."""
    foreign = NOTICE.search(text) and not NOTICE.search(place.near_above + place.near_below)
    return "" if foreign else text


def trailing_blanks(text: str, place: Place) -> str:
    """Strip trailing blanks and blank lines at the end, but not before the rest of the line."""
    *lines, last = text.split("\n")
    stripped = [line.rstrip() for line in lines]
    if place.rest.strip():
        return "\n".join([*stripped, last])
    return "\n".join([*stripped, last.rstrip()]).rstrip("\n")


def line_cap(text: str, max_lines: int) -> str:
    """Keep the first `max_lines` lines."""
    return "\n".join(text.split("\n")[:max_lines])
