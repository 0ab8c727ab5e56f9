"""How weights are rounded in groups, said in numpy: what the compiled part packs must be these numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.quantization import GROUP

LEAST_KEPT = 0.1  # of a matrix' groups, that rounding leaves as they are if they were rounded before


def grouped(weight: Fp32, bits: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Quantize weight [out, in] in groups of GROUP inputs, with scales [out, in / GROUP].

    The largest magnitude of a group becomes the lowest number of 4 bits, -8, as in ggml's Q4_0, and 127 of 8 bits, as
    in its Q8_0. Weights that were rounded by these stay as they are, even if -8 is not among them.
    """
    groups = weight.reshape(len(weight), -1, GROUP)
    largest, low = groups.max(2), groups.min(2)
    np.copyto(largest, low if bits == 4 else -low, where=-low >= largest)
    whole, scale = _rounded(groups, largest, -8 if bits == 4 else 127)
    if bits == 4 and (is_off := _differs(groups, whole, scale)).mean() < 1 - LEAST_KEPT:
        for most in (7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1):
            rows = groups[is_off][None]
            again = _rounded(rows, largest[is_off][None], most)
            fits = ~_differs(rows, *again)[0]
            at = tuple(axis[fits] for axis in np.nonzero(is_off))
            whole[at], scale[at] = again[0][0, fits], again[1][0, fits]
            is_off[at] = False
    return whole.reshape(weight.shape), scale


def _rounded(groups: Fp32, largest: Fp32, most: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Round groups [out, n, GROUP] with scales [out, n], of which the largest magnitude is `most`."""
    scale = np.divide(largest, most).astype(np.float16)
    divisor = scale.astype(np.float32)[:, :, None]
    divisor[divisor == 0] = np.inf  # of a group of zeros
    digits = groups / divisor
    whole = np.rint(digits, out=digits).clip(-127 if most == 127 else -8, 127 if most == 127 else 7)
    return whole.astype(np.int8), scale


def _differs(groups: Fp32, whole: npt.NDArray[np.int8], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.bool_]:
    """Return which groups [out, n] are changed by being rounded."""
    return (groups != whole * scale.astype(np.float32)[:, :, None]).any(2)
