"""Reads the names that an editor's other servers list: items of LSP's completion lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from efim_ls.languages.table import LANGUAGES
from efim_ls.request import ListedNames, NameKind, Names

FEWEST_CUT = 50  # names to which a server cuts a list: Eclipse's; gopls calls whole lists incomplete, too
# A name that begins a label, as in `push(…)`, ` size() const`, `name?` or `key=`, and is no part of a longer one.
_LABEL = re.compile(r"[\s•*]*([^\W\d]\w*)(=)?(?![\w.:$-])")
# LSP's numbers of kinds: methods, functions and constructors; classes, interfaces, enumerations and structures.
_KINDS: Mapping[object, NameKind] = {
    **dict.fromkeys((2, 3, 4), "function"),
    **dict.fromkeys((7, 8, 13, 22), "class"),
    9: "module",
}
_TEXT = 1
_NO_NAMES = (_TEXT, 15, 17, 19)  # words of the text, snippets, files and folders


def read_names(items: Sequence[object], start: int, lister: str, is_whole: bool) -> ListedNames | None:
    """Return the names in items of a completion list, None without any; of keywords alone if there is a keyword.

    `is_whole`: there are no other names, unless the list has words of the text, which a server that knows has not.
    """
    attributes, keywords = dict[str, NameKind](), dict[str, NameKind]()
    labelled = (cast("Mapping[str, object]", item) for item in items if isinstance(item, Mapping))
    for item in sorted((item for item in labelled if isinstance(item.get("label"), str)), key=_order):
        kind, found = item.get("kind"), _LABEL.match(str(item["label"]))
        is_whole = is_whole and kind != _TEXT
        if found and kind not in _NO_NAMES:
            named = keywords if found[2] else attributes
            named[found[1]] = _KINDS.get(kind, "value") if isinstance(kind, int) else "value"
    if keywords:
        return ListedNames(start, "keyword", Names(keywords, is_open=True), lister)
    return ListedNames(start, "attribute", Names(attributes, not is_whole), lister) if attributes else None


def is_whole_list(language: str, is_incomplete: bool, count: int) -> bool:
    """Return whether a list of `count` names has all: types declare the members, and no server has cut the list."""
    return LANGUAGES[language].declares_members and not (is_incomplete and count >= FEWEST_CUT)


def _order(item: Mapping[str, object]) -> str:
    return str(item.get("sortText") or item["label"])
