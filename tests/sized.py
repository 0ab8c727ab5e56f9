"""Settings with sizes that users cannot set: so few tokens that a test is fast, or a window is full."""

from __future__ import annotations

from dataclasses import dataclass

from efim_ls.settings import Settings

ONE_PLACE = 9  # MiB of memory, which leave room for one arena


@dataclass(frozen=True)
class Sized(Settings):
    """Settings in which these two follow from no others."""

    tail_tokens: int = 384  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    max_new_tokens: int = 64  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
