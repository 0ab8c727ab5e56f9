"""The products of a training step, in the form that this CPU computes fastest.

With AMX they are torch's, in bf16: tiles outdo AVX-512. Without, they are ours: forward and for the gradients of
inputs in int8, as SwitchBack does (arXiv 2304.13013), for the gradients of weights in bf16.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from efim_lab.training.native.library import addresses, library

PANEL = 32  # columns of a panel


class Scratch:
    """Room for what a product computes on the way, for operands of `rows` by at most `widest`.

    `largest` is the number of elements of the largest weight. Each product overwrites it.
    """

    def __init__(self, rows: int, widest: int, largest: int) -> None:
        self.bytes = torch.empty(rows * widest, dtype=torch.uint8)
        self.scales = torch.empty(rows)
        self.left, self.right = (torch.empty(rows * widest, dtype=torch.bfloat16) for _ in range(2))
        self.gradient = torch.empty(largest, dtype=torch.bfloat16)


class Operand(Protocol):
    """The right operand [depth, columns] of a product."""

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
        """Copy the weight's present values into the panels."""
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
    """An operand in panels of bf16."""

    def __init__(self, depth: int, columns: int) -> None:
        self._depth, self._columns = depth, columns
        self._panels = torch.empty(depth * columns, dtype=torch.bfloat16)

    def pack(self, values: Tensor) -> None:
        """Copy the weight's present values, [depth, columns], into the panels."""
        library().train_pack_columns(self._columns, self._depth, *addresses(values, self._panels))

    def multiply(self, rows: int, left: Tensor, out: Tensor, scratch: Scratch) -> None:
        """Multiply, see Operand."""
        library().train_multiply(rows, self._columns, self._depth, *addresses(left, self._panels, out))


class TorchOperand:
    """An operand that torch multiplies."""

    def __init__(self, values: Tensor) -> None:
        self._values = values

    def multiply(self, rows: int, left: Tensor, out: Tensor, scratch: Scratch) -> None:
        """Multiply, see Operand."""
        torch.mm(left[:rows], self._values, out=out[:rows])


class Products(Protocol):
    """The products with one weight [outputs, inputs]."""

    @property
    def forward(self) -> Operand:
        """The weight transposed, [inputs, outputs]."""
        ...

    @property
    def backward(self) -> Operand:
        """The weight."""
        ...

    def pack(self, values: Tensor) -> None:
        """Copy the weight's present values, in the form that its products read."""
        ...

    def add_gradient(self, tokens: int, d: Tensor, x: Tensor, total: Tensor, scratch: Scratch) -> None:
        """Add d^T x to `total` [outputs, inputs], over the first `tokens` rows of both."""
        ...


class KernelProducts:
    """Products of our kernels.

    The gradient of the logits holds many small shares beside one large one, which int8 would lose: with `exact_back`
    the product with it is of bf16.
    """

    def __init__(self, outputs: int, inputs: int, exact_back: bool) -> None:
        self.forward = Int8Operand(inputs, outputs, transposed=True)
        back = Bf16Operand(outputs, inputs) if exact_back else Int8Operand(outputs, inputs, transposed=False)
        self.backward: Bf16Operand | Int8Operand = back

    def pack(self, values: Tensor) -> None:
        """See Products."""
        self.forward.pack(values)
        self.backward.pack(values)

    def add_gradient(self, tokens: int, d: Tensor, x: Tensor, total: Tensor, scratch: Scratch) -> None:
        """See Products."""
        outputs, inputs = total.shape
        library().train_pair_tokens(tokens, outputs, *addresses(d, scratch.left))
        library().train_pair_tokens(tokens, inputs, *addresses(x, scratch.right))
        library().train_multiply_tokens(outputs, inputs, tokens, *addresses(scratch.left, scratch.right, total))


class TorchProducts:
    """Products of torch, in bf16."""

    def __init__(self, outputs: int, inputs: int) -> None:
        self._halves = torch.empty(outputs, inputs, dtype=torch.bfloat16)
        self.forward, self.backward = TorchOperand(self._halves.T), TorchOperand(self._halves)

    def pack(self, values: Tensor) -> None:
        """See Products."""
        self._halves.copy_(values)

    def add_gradient(self, tokens: int, d: Tensor, x: Tensor, total: Tensor, scratch: Scratch) -> None:
        """See Products."""
        half = scratch.gradient[: total.numel()].view(total.shape)  # reused: fresh memory costs page faults
        total += torch.mm(d[:tokens].T, x[:tokens], out=half)


def products(outputs: int, inputs: int, exact_back: bool = False) -> Products:
    """Choose the products of a weight for this CPU."""
    if torch.cpu._is_amx_tile_supported():  # pyright: ignore[reportPrivateUsage]
        return TorchProducts(outputs, inputs)
    return KernelProducts(outputs, inputs, exact_back)
