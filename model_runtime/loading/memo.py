"""Values kept between runs because they take long to compute."""

from __future__ import annotations

from typing import Protocol


class Memo(Protocol):
    """A text kept between runs; `str` names its place in the log."""

    def read(self) -> str:
        """Return the value written last; raises OSError."""
        ...

    def write(self, text: str, /) -> None:
        """Replace the value; raises OSError."""
        ...
