"""Which families our own decoder computes, by their names in `config.json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model_runtime.checkpoint.families import convolved, dense, experts, latents, states, windows
from model_runtime.checkpoint.families.fields import Fields

FAMILY_FIELDS: dict[str, Callable[[Fields], dict[str, Any]]] = {
    "llama": dense.llama,
    "llama_swiftkv": dense.llama_swiftkv,
    "qwen2": dense.qwen2,
    "qwen3": dense.qwen3,
    "mistral": dense.mistral,
    "starcoder2": dense.starcoder2,
    "gemma": dense.gemma,
    "granite": dense.granite,
    "efim": dense.efim,
    "gemma2": windows.gemma2,
    "gemma3_text": windows.gemma3,
    "gemma3n_text": windows.gemma3n,
    "cohere2": windows.cohere2,
    "mixtral": experts.mixtral,
    "qwen2_moe": experts.qwen2_moe,
    "qwen3_moe": experts.qwen3_moe,
    "granitemoe": experts.granitemoe,
    "ernie4_5_moe": experts.ernie4_5_moe,
    "gpt_oss": experts.gpt_oss,
    "deepseek_v2": latents.deepseek_v2,
    "deepseek_v3": latents.deepseek_v3,
    "glm4_moe_lite": latents.glm4_moe_lite,
    "mamba2": states.mamba2,
    "bamba": states.bamba,
    "granitemoehybrid": states.granitemoehybrid,
    "falcon_h1": states.falcon_h1,
    "qwen3_next": states.qwen3_next,
    "lfm2": states.lfm2,
    "zaya": convolved.zaya,
}
