"""Tiny random models of families that our decoder does not know, computed over arenas and by transformers alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from model_runtime.decoder.hf.config import hf_config
from model_runtime.decoder.hf.load import HfDecoder, load_hf_decoder
from model_runtime.decoder.quantization import Format
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from tests.models import VOCABULARY

transformers_logging.disable_progress_bar()

CONTEXT, CLOSE = 256, 1e-4
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
LIMITS: dict[str, Any] = {"max_position_embeddings": CONTEXT, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
GROUPED: dict[str, Any] = {"num_key_value_heads": 2, "intermediate_size": 80}
FAMILIES: dict[str, dict[str, Any]] = {
    "stablelm": GROUPED | {"use_qkv_bias": True},  # a part of each head turns; layer norms
    "gpt_bigcode": {"n_inner": 96},  # one key head, learnt positions
    "cohere": GROUPED | {"logit_scale": 1.0},  # neighbours turn together; attention and mlp side by side
    "gpt2": {},  # a matrix the other way round
}
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, CONTEXT).astype(np.int32)


def make(folder: Path, family: str, **fields: Any) -> Path:
    """A tiny random model of any family, its logits spread."""
    config = AutoConfig.for_model(family, **{**SIZES, **LIMITS, **fields})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, mean=float("norm" in name or "ln_" in name) * (weight.dim() == 1), std=0.2)
    model.save_pretrained(folder)
    return folder


def load(folder: Path, form: Format = "fp32") -> HfDecoder:
    return load_hf_decoder(folder, hf_config(folder), form)


class Model:
    """One checkpoint, computed over arenas and by transformers alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.decoder = folder, load(folder)
        self.reference: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        )

    def arena(self) -> Arena:
        return DenseArena(self.decoder.config, CONTEXT)

    @torch.inference_mode()
    def alone(self, ids: Ids) -> torch.Tensor:
        """Logits [len(ids), vocab] without a cache."""
        return self.reference.eval()(torch.tensor(ids).long()[None], use_cache=False).logits[0]


def assert_close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = CLOSE) -> None:
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= tolerance


def in_passes(decoder: HfDecoder, arena: Arena, ids: Ids, size: int) -> torch.Tensor:
    """Append tokens, so many a pass; the logits of all rows."""
    parts = [ids[at : at + size] for at in range(0, len(ids), size)]
    return torch.cat([decoder.forward(part, arena, len(part)) for part in parts])
