"""The embedded model's shape, its loss and its optimizers."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.optim import AdamW, Muon
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

from efim_lab.training.native.muon import KernelMuon
from efim_lab.training.samples import bpe
from efim_lab.training.samples.masks import sample_starts
from efim_lab.training.samples.packing import PADDING
from model_runtime.checkpoint.config import read_config

ROPE_BASE, NORM_EPSILON = 10000.0, 1e-5
_DECAY = 0.1  # of matrices, times the learning rate


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama decoder with tied embeddings; the default has 11.2 million parameters."""

    vocabulary: int = bpe.VOCABULARY
    width: int = 320
    layers: int = 8
    heads: int = 5
    kv_heads: int = 1
    head_dim: int = 64
    feed_forward: int = 864
    context: int = bpe.CONTEXT


def read_shape(folder: Path) -> Shape:
    """Read the shape of a finished model that `build` made."""
    config = read_config(folder)
    attention, mlp = config.alike.attention, config.alike.mlp
    return Shape(
        vocabulary=config.vocab,
        width=config.hidden,
        layers=len(config.layers),
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        feed_forward=mlp.intermediate,
        context=config.context,
    )


LARGER = Shape(width=512, layers=10, heads=8, kv_heads=2, feed_forward=1408)  # 32 million parameters


def build(shape: Shape) -> LlamaForCausalLM:
    """Build a model with random weights."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.context,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        rms_norm_eps=NORM_EPSILON,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=bpe.ID[bpe.END],
        pad_token_id=bpe.ID[bpe.PAD],
    )
    AttentionInterface.register("causal_rows", _attend)  # pyright: ignore[reportUnknownMemberType]
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("causal_rows")  # pyright: ignore[reportUnknownMemberType]
    return model


def loss_of(model: torch.nn.Module, rows: Tensor, seen: Tensor | None = None) -> Tensor:
    """Return the mean cross entropy in nats of token ids [rows, length], without padding.

    `seen` [rows, 1, length, length] says which keys each query may see; without it, those are all before it.
    """
    logits = model(input_ids=rows.clamp(min=0), attention_mask=seen, use_cache=False).logits[:, :-1].float()
    return cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PADDING)


def loss_of_samples(model: torch.nn.Module, rows: Tensor) -> Tensor:
    """Return the loss where each token sees what `masks.py` lets it see; attention takes longer than without."""
    return loss_of(model, rows, seen_by(sample_starts(rows)))


def seen_by(starts: Tensor) -> Tensor:
    """Return which keys each query may see [rows, 1, length, length], from where each begins [rows, length]."""
    places = torch.arange(starts.shape[1], device=starts.device)
    return ((places <= places[:, None]) & (places >= starts[..., None]))[:, None]


def optimizers(model: LlamaForCausalLM, rate: float, native: bool = False) -> list[torch.optim.Optimizer]:
    """Return Muon, torch's or our own, for the layers' matrices, and AdamW for embeddings and norms."""
    embedding = model.model.embed_tokens.weight
    matrices = [p for p in model.parameters() if p.ndim == 2 and p is not embedding]
    others = [p for p in model.parameters() if p.ndim != 2 or p is embedding]
    if native:
        muon = KernelMuon(matrices, lr=rate, weight_decay=_DECAY)
    else:
        muon = Muon(matrices, lr=rate, weight_decay=_DECAY, adjust_lr_fn="match_rms_adamw")
    return [muon, AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)]


def _attend(
    _layer: torch.nn.Module,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    scaling: float,
    **_: object,
) -> tuple[Tensor, None]:
    """Compute attention over what is `seen`, by default all that precedes a token.

    q [rows, heads, length, dim], k and v [rows, kv_heads, length, dim].

    Used instead of transformers' own attention, which builds a mask when traced: at 2,048 tokens a step would take
    1.4 times as long.
    """
    mixed = scaled_dot_product_attention(q, k, v, seen, is_causal=seen is None, scale=scaling, enable_gqa=True)
    return mixed.transpose(1, 2).contiguous(), None
