"""The decoder in C: one call a pass, weights as fp16 or int8, a row to the same bits in any batch."""

from __future__ import annotations
