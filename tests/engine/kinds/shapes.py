"""Small shapes of each kind of model, for the tests of every decoder."""

from __future__ import annotations

from tests.models import Tiny

# What the compiled decoder has layers of.
COMPILED = {
    "gemma2": Tiny("gemma2", seed=14),
    "gemma3": Tiny("gemma3_text", layers=3, scaling="linear", seed=15),
    "cohere2": Tiny("cohere2", layers=3, hidden=64, seed=16),
    "mixtral": Tiny("mixtral", seed=34),
    "qwen2 with experts in some layers": Tiny("qwen2_moe", layers=3, seed=18),
    "qwen3 with experts": Tiny("qwen3_moe", seed=19),
    "granite with experts": Tiny("granitemoe", seed=20),
    "ernie": Tiny("ernie4_5_moe", hidden=64, layers=3, seed=21),
    "gpt-oss": Tiny("gpt_oss", scaling="yarn", seed=22),
    "deepseek v2": Tiny("deepseek_v2", kv_heads=4, layers=3, seed=23),
    "deepseek v3, yarn": Tiny("deepseek_v3", kv_heads=4, layers=3, scaling="yarn", seed=24),
    "glm 4, small": Tiny("glm4_moe_lite", kv_heads=4, layers=3, seed=31),
    "llama, swift keys": Tiny("llama_swiftkv", layers=3, seed=32),
    "llama, one set of keys for all upper layers": Tiny("llama_swiftkv", layers=4, groups=3, seed=33),
    "mamba2": Tiny("mamba2", seed=25),
    "bamba": Tiny("bamba", layers=3, seed=26),
    "granite 4, with experts": Tiny("granitemoehybrid", layers=3, seed=27),
    "falcon h1": Tiny("falcon_h1", seed=28),
    "qwen3 next": Tiny("qwen3_next", layers=4, seed=29),
    "lfm2": Tiny("lfm2", layers=3, seed=30),
}
KINDS = COMPILED | {
    "zaya": Tiny("zaya", layers=3, seed=41),
    "gemma 3n": Tiny("gemma3n_text", layers=4, seed=37),
}
