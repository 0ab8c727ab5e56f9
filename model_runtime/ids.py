"""Token ids as arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
NO_IDS = np.zeros(0, dtype=np.int32)


def common_prefix(a: Ids, b: Ids) -> int:
    """Return the length of the longest common prefix."""
    n = min(len(a), len(b))
    differing = np.flatnonzero(a[:n] != b[:n])
    return int(differing[0]) if len(differing) else n
