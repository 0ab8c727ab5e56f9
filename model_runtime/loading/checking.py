"""Whether a checkpoint's tokenizer is that of its weights: another model's would give wrong text without a word."""

from __future__ import annotations

import re
from pathlib import Path

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.errors import ModelError
from model_runtime.prompt.tokenizer import Tokenizer

MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)  # how a marker looks that its tokenizer holds for text
SENTENCEPIECE = "tokenizer.model"
PADDING = 1024  # entries that models have beyond their tokenizers', so that sizes are round
PADDING_SHARE = 0.05  # the same for large vocabularies


def read_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    """Read a checkpoint's tokenizer; ModelError where there is none, or another model's."""
    path = folder / "tokenizer.json"
    if not path.exists() and (folder / SENTENCEPIECE).exists():
        how = "convert it with AutoTokenizer and save_pretrained of transformers"
        raise ModelError(f"{folder} has no tokenizer.json, only {SENTENCEPIECE}, which is not read: {how}")
    tokenizer = Tokenizer(path)
    _check(tokenizer, config)
    return tokenizer


def _check(tokenizer: Tokenizer, config: ModelConfig) -> None:
    """Refuse vocabularies whose sizes are far apart, and texts that end at what is no marker."""
    has, wants = tokenizer.vocab, config.vocab
    if not 0 <= wants - has <= max(PADDING, wants * PADDING_SHARE):
        sizes = f"the tokenizer has {has} tokens, the model {wants}"
        raise ModelError(f"tokenizer.json is another model's ({sizes}): fetch the model again")
    for end in config.end_ids:
        spelled = tokenizer.token_bytes[end].decode("utf-8", "replace") if end < has else ""
        if spelled and not MARKER.fullmatch(spelled):
            told = f"texts end at token {end} by config.json, and here that is {spelled!r}"
            raise ModelError(f"tokenizer.json is another model's ({told}): fetch the model again")
