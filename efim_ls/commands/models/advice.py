"""Recommends a model for this machine, and puts the speed of a model into words."""

from __future__ import annotations

from collections.abc import Sequence

from efim_ls.commands.models.rows import ModelRow
from model_runtime.loading.pass_times import duration

# Milliseconds: a typical key is answered before the next one comes, and a new place while one still looks at it. The
# embedded models answer meanwhile.
QUICK_KEY, QUICK_PLACE = 100.0, 5_000.0
LARGEST_ON_GPU = 8e9  # parameters; beyond it, a token takes some 20 ms on most cards
FREE = ("Apache-2.0", "MIT")  # licences that everybody can accept


def recommended(rows: Sequence[ModelRow]) -> ModelRow | None:
    """Return the largest model that is quick here, of those on this machine and those with a free licence."""
    quick = [row for row in rows if _is_quick(row) and (row.downloaded or row.licence in FREE)]
    return max(quick, key=lambda row: (row.parameters or 0, row.downloaded), default=None)


def speed(row: ModelRow) -> str:
    """Return the time of a key and of a new place in words, or the reason why it is unknown."""
    if row.engine:
        return f"runs at {row.engine}"
    if row.fits_gpu and not row.measured:
        return "on the GPU"
    if row.milliseconds is None:
        return "with parts on disk: slow here" if row.in_part else "" if row.problem else "too large for this machine"
    words = f"{'' if row.measured else 'about '}{duration(row.milliseconds)} a key"
    if row.cold_milliseconds is not None:
        words += f", {duration(row.cold_milliseconds)} at a new place"
    return words if _is_quick(row) else f"{words}: slow here"


def _is_quick(row: ModelRow) -> bool:
    if row.fits_gpu:
        return (row.parameters or 0) <= LARGEST_ON_GPU
    key, place = row.milliseconds, row.cold_milliseconds
    return key is not None and key <= QUICK_KEY and (place or 0) <= QUICK_PLACE
