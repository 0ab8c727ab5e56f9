"""What is better not shown at all: text that cannot stand where it would go."""

from __future__ import annotations

import re

from efim_ls.postprocess.balance import BalancedCode
from efim_ls.postprocess.place import Place
from model_runtime.closers import is_closers

_BEFORE_A_WORD = " \t([{.,=+-*/%&|^~<>!@\"'"
_NOTICE = re.compile(r"copyright|licen[sc]ed? under|all rights reserved|spdx-", re.IGNORECASE)


def before_code(text: str, place: Place) -> str:
    """Drop a suggestion that would be glued to the code after it, or leave its brackets or strings unbalanced."""
    if is_closers(place.rest):
        return text
    if _is_word(place.rest[0]) and (_is_word(place.before[-1:]) or text[-1:] not in _BEFORE_A_WORD):
        return ""
    code, start = BalancedCode(place.before + text, angles=False), len(place.before)
    balanced = code.cut(start + len(text), place.rest) == code.cut(start, place.rest)
    return text if balanced else ""


def notices(text: str, place: Place) -> str:
    """Drop a copyright or licence notice in a file that has none: the model learnt from many that have."""
    foreign = _NOTICE.search(text) and not _NOTICE.search(place.above + place.below)
    return "" if foreign else text


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
