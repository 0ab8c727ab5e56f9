"""How byte-level tokenizers cut texts into pieces, by the names that llama.cpp gave them (`tokenizer.ggml.pre`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from model_runtime.errors import ModelError

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
QWEN2 = CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
SEED = QWEN2.replace(r"[^\s\p{L}\p{N}]+[\r\n]*", r"[^\s\p{L}\p{N}\r\n]+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT_4O = (
    TEKKEN.replace("+|[", f"+{CONTRACTIONS}?|[", 1)
    .replace("*|", f"*{CONTRACTIONS}?|", 1)
    .replace(r"|\p{N}|", r"|\p{N}{1,3}|")
)
DEEPSEEK_3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Cuts(NamedTuple):
    """How a byte-level tokenizer cuts texts: by patterns, one after the other; then digits apart; then as GPT-2 does.

    Whole words may be tokens without any merges, and texts may begin with a BOS unless the file says otherwise.
    """

    patterns: tuple[str, ...] = ()
    digits: bool = False
    as_gpt2: bool = False
    whole_words: bool = False
    bos: bool = False

    def steps(self) -> dict[str, Any]:
        """Return them as the pre-tokenizer of a tokenizer.json."""
        steps: list[dict[str, Any]] = [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            for pattern in self.patterns
        ]
        if self.digits:
            steps.append({"type": "Digits", "individual_digits": True})
        as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": self.as_gpt2}
        return {"type": "Sequence", "pretokenizers": [*steps, as_bytes]}


STARCODER = Cuts(digits=True, as_gpt2=True)
# By `tokenizer.ggml.pre`: what the tokenizers have for which llama.cpp made these names (src/llama-vocab.cpp).
CUTS = {
    "qwen2": Cuts((QWEN2,)),
    "deepseek-r1-qwen": Cuts((QWEN2,)),
    "llama3": Cuts((LLAMA3,), whole_words=True, bos=True),
    "llama-v3": Cuts((LLAMA3,), whole_words=True, bos=True),
    "llama-bpe": Cuts((LLAMA3,), whole_words=True, bos=True),
    "dbrx": Cuts((LLAMA3,)),
    "smaug-bpe": Cuts((LLAMA3,)),
    "starcoder": STARCODER,
    "refact": STARCODER,
    "codeshell": STARCODER,
    "smollm": STARCODER,
    "command-r": STARCODER,
    "gpt-2": Cuts(as_gpt2=True),
    "mellum": Cuts(as_gpt2=True),
    "deepseek-coder": Cuts((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"), digits=True),
    "deepseek-v3": Cuts((r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_3)),
    "tekken": Cuts((TEKKEN,), whole_words=True, bos=True),
    "gpt-4o": Cuts((GPT_4O,)),
    "seed-coder": Cuts((SEED,)),
}


def cuts_of(path: Path, pre: str) -> Cuts:
    """Return how the tokenizer of a file cuts texts; ModelError if that is not known."""
    if pre in CUTS:
        return CUTS[pre]
    how = "use a file that a newer llama.cpp has made, or the model that it was made of, in safetensors"
    if pre == "default":
        raise ModelError(f"{path} does not say how its tokenizer cuts a text (tokenizer.ggml.pre): {how}")
    raise ModelError(f"{path} cuts a text as {pre!r} does, which is not known: {how}")
