"""The decoder in C: one call a pass, weights of 16, 8 or 4 bits, a row to the same bits in any batch."""

from __future__ import annotations
