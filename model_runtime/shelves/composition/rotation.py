"""Moves keys to other places: rotary embedding turns each pair of a key by an angle that grows with its place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from model_runtime.kv.rotation import turned

Rotations = npt.NDArray[np.complex64]  # [context, head_dim / 2]


def moved(keys: npt.NDArray[np.float32], rotations: Rotations, old: int, new: int) -> npt.NDArray[np.float32]:
    """Return keys [layers, kv_heads, tokens, head_dim], computed from place `old` on, as at places from `new` on.

    One rotation in fp32 by the whole distance: turning keys again and again would add up errors.
    """
    if old == new:
        return keys.copy()
    count = keys.shape[2]
    turns = rotations[new : new + count].astype(np.complex128) * rotations[old : old + count].conj()
    return turned(keys, turns.astype(np.complex64))
