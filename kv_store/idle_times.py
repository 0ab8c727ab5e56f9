"""How long users stay away from a document before they come back, and so how long what is kept for it may wait.

After Continuum (arXiv 2511.02230), which takes a time to live from the distribution of earlier pauses.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from kv_store.atomic_files import replace_file

REMEMBERED = 200  # returns
ENOUGH = 20  # returns to tell a time from
RETURNED = 90  # percent of the returns that come in time
DEFAULT, LEAST, MOST = 600.0, 60.0, 8 * 3600.0  # seconds to live


class Away:
    """The last times that users stayed away, in seconds, oldest first."""

    def __init__(self, times: Iterable[float] = ()) -> None:
        """Begin with what was noted earlier."""
        self._times: deque[float] = deque(maxlen=REMEMBERED)
        for seconds in times:
            self.note(seconds)

    def note(self, seconds: float) -> None:
        """Say how long a user had been away who came back; what is no time, from a damaged file, is passed over."""
        if 0 <= seconds <= sys.float_info.max:  # and not NaN
            self._times.append(float(seconds))

    @property
    def times(self) -> tuple[float, ...]:
        """What to begin with the next time."""
        return tuple(self._times)

    @property
    def time_to_live(self) -> float:
        """Seconds within which nearly all users come back who come back at all."""
        if len(self._times) < ENOUGH:
            return DEFAULT
        in_time = -(-len(self._times) * RETURNED // 100)  # rounded up
        return min(max(LEAST, sorted(self._times)[in_time - 1]), MOST)


def read(path: Path) -> Away:
    """Read what `write` wrote; nothing is known where the file is missing or damaged."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return Away()
    values = cast(list[Any], content) if isinstance(content, list) else []
    return Away(value for value in values if isinstance(value, int | float))


def write(path: Path, away: Away) -> None:
    """Replace a file, mode 0600, by what is known now; raises OSError, and then it is as it was."""
    replace_file(path, json.dumps(away.times).encode())
