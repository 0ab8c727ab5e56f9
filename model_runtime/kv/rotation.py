"""Turns keys by the angles of places."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def turned(keys: npt.NDArray[np.float32], factors: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
    """Return keys [..., tokens, head_dim] multiplied by `factors`, [head_dim / 2] or one such row for each token.

    Dimensions 2j and 2j + 1 are the parts of one number. Each product, difference and sum is a separate operation,
    so that it is rounded alike whatever instructions compute it.
    """
    real, imaginary, made = keys[..., ::2], keys[..., 1::2], np.empty_like(keys)
    made[..., ::2] = real * factors.real - imaginary * factors.imag
    made[..., 1::2] = real * factors.imag + imaginary * factors.real
    return made
