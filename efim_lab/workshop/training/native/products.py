"""The products of a training step, in the form that this CPU computes fastest.

With AMX all are of bf16, in tiles. Without, those forward and for the gradients of inputs are of int8, as SwitchBack
has them (arXiv 2304.13013), those for the gradients of weights of bf16.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from efim_lab.workshop.training.native.library import addresses, library

PANEL = 32  # columns of a panel


class Scratch:
    """Room for what a product computes on the way, for operands of `rows` by at most `widest`.

    Each product overwrites it.
    """

    def __init__(self, rows: int, widest: int) -> None:
        self.bytes = torch.empty(rows * widest, dtype=torch.uint8)
        self.scales = torch.empty(rows)
        self.left, self.right = (torch.empty(rows * widest, dtype=torch.bfloat16) for _ in range(2))


class Operand(Protocol):
    """The right operand [depth, columns] of a product."""

    def pack(self, values: Tensor) -> None:
        """Copy the weight's present values into the panels."""
        ...

    def multiply(self, rows: int, left: Tensor, out: Tensor, scratch: Scratch) -> None:
        """Write the first `rows` of left [.., depth] times this operand to `out` [.., columns]; both are bf16."""
        ...


class Int8Operand:
    """An operand in panels of int8, packed from values [depth, columns] or, if `transposed`, [columns, depth]."""

    def __init__(self, depth: int, columns: int, transposed: bool) -> None:
        self._depth, self._columns, self._transposed = depth, columns, transposed
        self._panels = torch.empty(depth * columns, dtype=torch.int8)
        self._scales = torch.empty(columns)
        self._shifts = torch.empty(columns, dtype=torch.int32)

    def pack(self, values: Tensor) -> None:
        """See Operand."""
        lib = library()
        pack = lib.train_pack_rows_int8 if self._transposed else lib.train_pack_columns_int8
        pack(self._columns, self._depth, *addresses(values, self._panels, self._scales, self._shifts))

    def multiply(self, rows: int, left: Tensor, out: Tensor, scratch: Scratch) -> None:
        """Multiply, see Operand; the left operand is rounded to int8, too."""
        a = scratch.bytes, scratch.scales
        library().train_quantize(rows, self._depth, *addresses(left, *a))
        operands = addresses(*a, self._panels, self._scales, self._shifts, out)
        library().train_multiply_int8(rows, self._columns, self._depth, *operands)


class Bf16Operand:
    """An operand in panels of bf16, packed as panels of int8 are."""

    def __init__(self, depth: int, columns: int, transposed: bool) -> None:
        self._depth, self._columns, self._transposed = depth, columns, transposed
        self._panels = torch.empty(depth * columns, dtype=torch.bfloat16)

    def pack(self, values: Tensor) -> None:
        """See Operand."""
        lib = library()
        pack = lib.train_pack_rows if self._transposed else lib.train_pack_columns
        pack(self._columns, self._depth, *addresses(values, self._panels))

    def multiply(self, rows: int, left: Tensor, out: Tensor, scratch: Scratch) -> None:
        """Multiply, see Operand."""
        library().train_multiply(rows, self._columns, self._depth, *addresses(left, self._panels, out))


class Products:
    """The products with one weight [outputs, inputs]: `forward` is it transposed, `backward` as it is.

    The gradient of the logits holds one large share and many small shares, which int8 would lose: with `exact_back`
    the product with it is of bf16.
    """

    def __init__(self, outputs: int, inputs: int, exact_back: bool) -> None:
        tiles = library().tiles_usable()
        self.forward: Operand = (Bf16Operand if tiles else Int8Operand)(inputs, outputs, transposed=True)
        self.backward: Operand = (Bf16Operand if tiles or exact_back else Int8Operand)(
            outputs, inputs, transposed=False
        )

    def pack(self, values: Tensor) -> None:
        """Copy the weight's present values, in the form that its products read."""
        self.forward.pack(values)
        self.backward.pack(values)

    def add_gradient(self, tokens: int, d: Tensor, x: Tensor, total: Tensor, scratch: Scratch) -> None:
        """Add d^T x to `total` [outputs, inputs], over the first `tokens` rows of both."""
        outputs, inputs = total.shape
        library().train_left_tokens(tokens, outputs, *addresses(d, scratch.left))
        library().train_pair_tokens(tokens, inputs, *addresses(x, scratch.right))
        library().train_multiply_tokens(outputs, inputs, tokens, *addresses(scratch.left, scratch.right, total))
