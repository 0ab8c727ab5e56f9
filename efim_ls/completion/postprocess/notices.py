"""Text that belongs to other people's files."""

from __future__ import annotations

import re

from efim_ls.completion.postprocess.place import Place

_NOTICE = re.compile(r"copyright|licen[sc]ed? under|all rights reserved|spdx-", re.IGNORECASE)


def notices(text: str, place: Place) -> str:
    """Drop a copyright or licence notice in a file that has none: the model learnt from many that have."""
    foreign = _NOTICE.search(text) and not _NOTICE.search(place.above + place.below)
    return "" if foreign else text
