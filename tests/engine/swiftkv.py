"""A Llama with SwiftKV (arXiv 2410.03960) in plain torch, over whole sequences: what decoders are compared with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from model_runtime.checkpoint.families.fields import read_json


class SwiftKv(torch.nn.Module):
    """Logits of token ids; keys and values of the upper layers come from the stream below the first of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._raw, self._weights = read_json(folder / "config.json"), load_file(folder / "model.safetensors")

    def forward(self, ids: torch.Tensor, use_cache: bool = False) -> SimpleNamespace:
        """Return an object with the logits [1, length, vocabulary]."""
        assert not use_cache
        raw, x = self._raw, self._weights["model.embed_tokens.weight"].float()[ids[0]]
        first, group = raw["num_key_value_layers"], raw["key_value_group_size"]
        shared: tuple[torch.Tensor, torch.Tensor] | None = None
        stream = x
        for layer in range(raw["num_hidden_layers"]):
            at, suffix = f"model.layers.{layer}.", "_swiftkv" if layer >= first else ""
            if layer == first:
                stream = self._normed(x, "model.norm_swiftkv")
            y = self._normed(x, f"{at}input_layernorm")
            if layer < first or (layer - first) % group == 0:
                of = y if layer < first else stream
                keys, values = (self._heads(of, f"{at}self_attn.{name}_proj{suffix}") for name in "kv")
                shared = self._rotated(keys), values
            assert shared is not None
            queries = self._rotated(self._heads(y, f"{at}self_attn.q_proj{suffix}"))
            groups = queries.shape[0] // shared[0].shape[0]
            keys, values = (each.repeat_interleave(groups, 0) for each in shared)
            seen = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            x = x + self._product(seen.transpose(0, 1).flatten(1), f"{at}self_attn.o_proj")
            y = self._normed(x, f"{at}post_attention_layernorm")
            gate, up = (self._product(y, f"{at}mlp.{name}_proj") for name in ("gate", "up"))
            x = x + self._product(F.silu(gate) * up, f"{at}mlp.down_proj")
        head = "model.embed_tokens" if raw["tie_word_embeddings"] else "lm_head"
        return SimpleNamespace(logits=self._product(self._normed(x, "model.norm"), head)[None])

    def _product(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ self._weights[f"{name}.weight"].float().T

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weight = self._weights[f"{name}.weight"].float()
        return F.rms_norm(x, weight.shape, weight, self._raw["rms_norm_eps"])

    def _heads(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """Return [heads, length, head_dim]."""
        return self._product(x, name).view(len(x), -1, self._raw["head_dim"]).transpose(0, 1)

    def _rotated(self, heads: torch.Tensor) -> torch.Tensor:
        dim, length = self._raw["head_dim"], heads.shape[1]
        turns = self._raw["rope_theta"] ** -(torch.arange(0, dim, 2).float() / dim)
        angles = torch.outer(torch.arange(length).float(), turns).repeat(1, 2)
        low, high = heads.chunk(2, -1)
        return heads * angles.cos() + torch.cat((-high, low), -1) * angles.sin()
