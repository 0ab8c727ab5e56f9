"""How families name their tensors: those that differ from the names that most have, which are used here for all."""

from __future__ import annotations

# Parts of names, and what a family has instead; one after the other.
_RENAMED: dict[str, tuple[tuple[str, str], ...]] = {
    "mamba2": (
        ("model.embed_tokens.", "backbone.embeddings."),
        ("model.norm.", "backbone.norm_f."),
        ("model.layers.", "backbone.layers."),
        (".input_layernorm.", ".norm."),
        (".state.", ".mixer."),
    ),
    "bamba": (
        ("model.norm.", "model.final_layernorm."),
        (".post_attention_layernorm.", ".pre_ff_layernorm."),
        (".mlp.", ".feed_forward."),
        (".state.", ".mamba."),
    ),
    "granitemoehybrid": (
        (".mlp.", ".shared_mlp."),
        (".gate_up_proj.", ".input_linear."),
        (".down_proj.", ".output_linear."),
        (".state.", ".mamba."),
    ),
    "qwen3_next": ((".state.", ".linear_attn."),),
    "lfm2": (
        ("model.norm.", "model.embedding_norm."),
        (".input_layernorm.", ".operator_norm."),
        (".post_attention_layernorm.", ".ffn_norm."),
        (".mlp.gate_proj.", ".feed_forward.w1."),
        (".mlp.up_proj.", ".feed_forward.w3."),
        (".mlp.down_proj.", ".feed_forward.w2."),
        (".self_attn.o_proj.", ".self_attn.out_proj."),
        (".q_norm.", ".q_layernorm."),
        (".k_norm.", ".k_layernorm."),
        (".state.conv1d.", ".conv.conv."),
        (".state.", ".conv."),
    ),
}
_RENAMED["falcon_h1"] = _RENAMED["bamba"]


def stored_name(family: str, name: str) -> str:
    """Return the name that a family's checkpoints have for a tensor, or for the beginning of such a name."""
    for usual, own in _RENAMED.get(family, ()):
        name = name.replace(usual, own)
    return name
