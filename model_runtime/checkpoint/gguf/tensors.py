"""Finds a model's tensors in a GGUF file by their usual names, and widens quantized numbers when asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.gguf.config import architecture_of, head_size
from model_runtime.checkpoint.gguf.header import AGAIN, GgufHeader
from model_runtime.checkpoint.gguf.kinds import KINDS, Kind, gguf_package, kind_name
from model_runtime.checkpoint.tensors.compact import DTYPES
from model_runtime.errors import ModelError

NUMBERS_AT_ONCE = 1 << 20  # that are widened
FP32 = 0  # the number of its type

# llama.cpp's names of modules around the layers, and in them.
AROUND = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
WITHIN = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
}
LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
EXPERT = re.compile(r"mlp\.experts\.(\d+)\.(gate|up|down)_proj")
TURNED = re.compile(r"\.[qk]_proj\.")


class Blocks(NamedTuple):
    """A tensor in its file's blocks; `turn` is how many numbers a head has whose rows are to be put in order."""

    content: npt.NDArray[np.uint8]
    kind: Kind
    shape: tuple[int, ...]
    turn: int = 0

    def widened(self) -> npt.NDArray[Any]:
        """Return the numbers, quantized ones in fp32, as ggml defines them, widened part by part."""
        rows = self.content.reshape(self.shape[0], -1) if self.turn else self.content
        if self.turn:
            pairs = rows.reshape(-1, self.turn // 2, 2, rows.shape[1])
            rows = np.ascontiguousarray(pairs.swapaxes(1, 2))
        if self.kind.is_plain:
            return rows.reshape(-1).view(DTYPES[self.kind.name]).reshape(self.shape)
        package, step = gguf_package(), NUMBERS_AT_ONCE // self.kind.numbers
        blocks, kind = rows.reshape(-1, self.kind.size), package.GGMLQuantizationType[self.kind.name]
        made = np.empty((len(blocks), self.kind.numbers), np.float32)
        for at in range(0, len(blocks), step):
            part = blocks[at : at + step].reshape(1, -1)
            made[at : at + step] = package.dequantize(part, kind).reshape(-1, self.kind.numbers)
        return made.reshape(self.shape)

    def take(self, rows: npt.NDArray[np.integer[Any]], axis: int = 0) -> npt.NDArray[Any]:
        """Return some rows of a matrix that is not turned, as numpy's arrays do."""
        assert axis == 0 and not self.turn
        taken = self.content.reshape(self.shape[0], -1)[rows]
        return self._replace(content=taken.reshape(-1), shape=(len(rows), self.shape[1])).widened()

    @property
    def scales(self) -> npt.NDArray[Any]:
        """The scales of all blocks, which are finite only if all numbers are."""
        if self.kind.is_plain:
            return self.content.view(DTYPES[self.kind.name])
        return self.content.reshape(-1, self.kind.size)[:, self.kind.scales].view("<f2")


def find_tensors(header: GgufHeader, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Blocks]:
    """Return the tensors of these usual names and shapes; ModelError if one is missing, or is of another kind.

    Nothing is read but the header: pages are read when they are used.
    """
    made, turn = architecture_of(header), head_size(header)
    found = {name: _find(header, name, shape) for name, shape in shapes.items()}
    if any(not each.kind.is_plain for each in found.values()):
        gguf_package()
    if made.turned:
        turned = (name for name in found if TURNED.search(name))
        found |= {name: found[name]._replace(turn=turn) for name in turned}
    if made.shifted:
        found |= {name: _shifted(each) for name, each in found.items() if name.endswith("norm.weight")}
    return found


def own_name(usual: str) -> tuple[str, int | None]:
    """Return llama.cpp's name of a tensor, and which part of it is meant if that holds all experts."""
    module, _, suffix = usual.rpartition(".")
    if (layer := LAYER.fullmatch(module)) is None:
        return f"{AROUND[module]}.{suffix}", None
    at = f"blk.{layer[1]}"
    if expert := EXPERT.fullmatch(layer[2]):
        return f"{at}.ffn_{expert[2]}_exps.{suffix}", int(expert[1])
    return f"{at}.{WITHIN[layer[2]]}.{suffix}", None


def _find(header: GgufHeader, usual: str, shape: tuple[int, ...]) -> Blocks:
    name, part = own_name(usual)
    if (place := header.tensors.get(name)) is None:
        raise ModelError(f"{header.path} lacks {name}, which a model of its shape has: {AGAIN}")
    if place.kind not in KINDS:
        known = ", ".join(kind.name for kind in KINDS.values())
        raise ModelError(f"{name} is of {kind_name(place.kind)}, and only {known} are read: use another quantization")
    content = place.content
    if part is not None and len(place.shape) == 3 and part < place.shape[0]:
        size = len(content) // place.shape[0]
        place = place._replace(shape=place.shape[1:])
        content = content[part * size : (part + 1) * size]
    if place.shape != shape:
        raise ModelError(f"{name} has shape {place.shape}, the metadata ask for {shape}: {AGAIN}")
    return Blocks(content, KINDS[place.kind], shape)


def _shifted(norm: Blocks) -> Blocks:
    """Return the weights of a norm without the 1 that was added to them."""
    with np.errstate(all="ignore"):  # NaN is found later, as anywhere
        weights: npt.NDArray[np.float32] = norm.widened().astype(np.float32) - 1
    return Blocks(weights.view(np.uint8), KINDS[FP32], norm.shape)
