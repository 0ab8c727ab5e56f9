"""Text that belongs to other people's files."""

from __future__ import annotations

import re

from efim_ls.completion.postprocess.place import Place

NOTICE = re.compile(r"copyright|licen[sc]ed? under|all rights reserved|spdx-", re.IGNORECASE)


def notices(text: str, place: Place) -> str:
    """Drop a copyright or licence notice in a file that has none: the model learnt from many that have."""
    foreign = NOTICE.search(text) and not NOTICE.search(place.above + place.below)
    return "" if foreign else text
