"""What is kept between runs because it takes long to find out."""

from __future__ import annotations

from typing import Protocol


class Memo(Protocol):
    """A text kept between runs; `str` names its place in the log."""

    def read(self) -> str:
        """Return what was written last; raises OSError."""
        ...

    def write(self, text: str, /) -> None:
        """Replace what is there; raises OSError."""
        ...
