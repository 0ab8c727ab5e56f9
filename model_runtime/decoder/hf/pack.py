"""Packs the matrices of a model of transformers as our decoder's are, and frees each once it is packed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

from model_runtime.decoder.linear import Linear, linear
from model_runtime.decoder.quantization import Format

TABLE_TYPES, MATRIX_TYPES = (nn.Embedding,), (nn.Linear, Conv1D)


class PackedLinear(nn.Module):
    """A product with a packed matrix [out, in]."""

    def __init__(self, product: Linear) -> None:
        super().__init__()
        self._product = product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply rows x [..., in]; returns [..., out]."""
        rows = self._product(x.reshape(-1, x.shape[-1]).contiguous())
        return rows.view(*x.shape[:-1], rows.shape[-1])


class EmbeddingTable(nn.Module):
    """Looks up rows of a table in its stored format; a parameter would become fp32."""

    def __init__(self, weight: torch.Tensor) -> None:
        """Keep the table [tokens, hidden]."""
        super().__init__()
        self.weight = weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of ids [...] in fp32, [..., hidden]."""
        return F.embedding(ids, self.weight).float()


def pack(model: Any, form: Format) -> None:
    """Replace matrices and tables; all else becomes fp32.

    The largest come first, since a matrix is in memory three times while it is packed. Subclasses stay: they may
    compute something else.
    """
    kinds = TABLE_TYPES + MATRIX_TYPES
    sizes: dict[str, int] = {name: each.weight.numel() for name, each in model.named_modules() if type(each) in kinds}
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        model.set_submodule(name, _replacement(model.get_submodule(name), form))
    model.float()


def count_unpacked(model: Any) -> int:
    """Count the parameters that packing leaves in fp32."""
    packed = {
        id(p) for m in model.modules() if type(m) in TABLE_TYPES + MATRIX_TYPES for p in m.parameters(recurse=False)
    }
    return sum(p.numel() for p in model.parameters() if id(p) not in packed)


def _replacement(module: Any, form: Format) -> nn.Module:
    weight = module.weight.detach()
    if type(module) in TABLE_TYPES:
        return EmbeddingTable(weight)
    bias = None if module.bias is None else module.bias.detach().float()
    return PackedLinear(linear(weight.T if type(module) is Conv1D else weight, bias, form))
