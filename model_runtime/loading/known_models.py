"""Models on the hub that are known to fill in the middle, with what a user wants to know before fetching one."""

from __future__ import annotations

from typing import NamedTuple


class KnownModel(NamedTuple):
    """A repository of the hub.

    `matrix` is the number of elements of its largest matrix, vocabulary times hidden size; `context` is in tokens.
    `idle` are the parameters of experts that a token does not choose.
    """

    name: str
    parameters: int
    matrix: int
    context: int
    licence: str
    family: str  # of model_runtime.prompt.families
    idle: int = 0


# Parameters as the hub counts them in the safetensors files; licences and contexts as the repositories' cards say.
KNOWN_MODELS = (
    # huggingface.co/Qwen/Qwen2.5-Coder-0.5B and the cards of the other sizes; arxiv.org/abs/2409.12186, table 1
    KnownModel("Qwen/Qwen2.5-Coder-0.5B", 494_032_768, 151936 * 896, 32768, "Apache-2.0", "qwen"),
    KnownModel("Qwen/Qwen2.5-Coder-1.5B", 1_543_714_304, 151936 * 1536, 32768, "Apache-2.0", "qwen"),
    KnownModel("Qwen/Qwen2.5-Coder-3B", 3_085_938_688, 151936 * 2048, 32768, "Qwen research", "qwen"),
    KnownModel("Qwen/Qwen2.5-Coder-7B", 7_615_616_512, 152064 * 3584, 32768, "Apache-2.0", "qwen"),
    KnownModel("Qwen/Qwen2.5-Coder-14B", 14_770_033_664, 152064 * 5120, 32768, "Apache-2.0", "qwen"),
    KnownModel("Qwen/Qwen2.5-Coder-32B", 32_763_876_352, 152064 * 5120, 32768, "Apache-2.0", "qwen"),
    # huggingface.co/deepseek-ai/deepseek-coder-6.7b-base; arxiv.org/abs/2401.14196
    KnownModel("deepseek-ai/deepseek-coder-1.3b-base", 1_346_471_936, 32256 * 2048, 16384, "DeepSeek", "deepseek"),
    KnownModel("deepseek-ai/deepseek-coder-6.7b-base", 6_740_512_768, 32256 * 4096, 16384, "DeepSeek", "deepseek"),
    # huggingface.co/deepseek-ai/DeepSeek-Coder-V2-Lite-Base: 58 of 64 experts rest in each of 26 layers
    KnownModel(
        "deepseek-ai/DeepSeek-Coder-V2-Lite-Base",
        15_706_484_224,
        102400 * 2048,
        163840,
        "DeepSeek",
        "deepseek",
        idle=26 * 58 * 3 * 2048 * 1408,
    ),
    # huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct: 120 of 128 experts rest in each of 48 layers
    KnownModel(
        "Qwen/Qwen3-Coder-30B-A3B-Instruct",
        30_532_122_624,
        151936 * 2048,
        262144,
        "Apache-2.0",
        "qwen",
        idle=48 * 120 * 3 * 2048 * 768,
    ),
    # huggingface.co/bigcode/starcoder2-3b: the attention of a layer sees the last 4,096 tokens
    KnownModel("bigcode/starcoder2-3b", 3_030_371_328, 49152 * 3072, 16384, "BigCode OpenRAIL-M", "starcoder"),
    KnownModel("bigcode/starcoder2-7b", 7_173_923_840, 49152 * 4608, 16384, "BigCode OpenRAIL-M", "starcoder"),
    KnownModel("bigcode/starcoder2-15b", 15_957_889_024, 49152 * 6144, 16384, "BigCode OpenRAIL-M", "starcoder"),
    # github.com/meta-llama/codellama, MODEL_CARD.md: 7B and 13B infill, others do not
    KnownModel("codellama/CodeLlama-7b-hf", 6_738_546_688, 32016 * 4096, 16384, "Llama 2", "codellama"),
    KnownModel("codellama/CodeLlama-13b-hf", 13_016_028_160, 32016 * 5120, 16384, "Llama 2", "codellama"),
    # huggingface.co/google/codegemma-1.1-2b, for which terms have to be accepted
    KnownModel("google/codegemma-1.1-2b", 2_506_172_416, 256000 * 2048, 8192, "Gemma, gated", "codegemma"),
    KnownModel("google/codegemma-7b", 8_537_680_896, 256000 * 3072, 8192, "Gemma, gated", "codegemma"),
    # huggingface.co/mistralai/Codestral-22B-v0.1
    KnownModel("mistralai/Codestral-22B-v0.1", 22_247_282_688, 32768 * 6144, 32768, "MNPL-0.1, gated", "codestral"),
    # arxiv.org/abs/2405.04324 (Granite Code)
    KnownModel("ibm-granite/granite-3b-code-base-2k", 3_482_503_680, 49152 * 2560, 2048, "Apache-2.0", "starcoder"),
    KnownModel("ibm-granite/granite-8b-code-base-4k", 8_054_910_976, 49152 * 4096, 4096, "Apache-2.0", "starcoder"),
    # huggingface.co/ByteDance-Seed/Seed-Coder-8B-Base
    KnownModel("ByteDance-Seed/Seed-Coder-8B-Base", 8_250_462_208, 155136 * 4096, 32768, "MIT", "seed-coder"),
    # huggingface.co/01-ai/Yi-Coder-9B
    KnownModel("01-ai/Yi-Coder-1.5B", 1_476_495_360, 64000 * 2048, 131072, "Apache-2.0", "starcoder"),
    KnownModel("01-ai/Yi-Coder-9B", 8_829_407_232, 64000 * 4096, 131072, "Apache-2.0", "starcoder"),
    # github.com/gty111/EFIM: trained on fragments for EFIM's prompts
    KnownModel(
        "instinctguo/deepseek-coder-6.7b-enhance", 6_740_512_768, 32256 * 4096, 16384, "not stated", "deepseek-efim"
    ),
    KnownModel("instinctguo/llama3.1-8b-enhance", 8_030_261_248, 128256 * 4096, 131072, "not stated", "llama-efim"),
)


def largest_within(parameters: int) -> KnownModel | None:
    """Return the largest known model of at most `parameters`; among equals the first in the list."""
    return max(
        (each for each in KNOWN_MODELS if each.parameters <= parameters), key=lambda k: k.parameters, default=None
    )
