"""The tokenizers of the embedded models: what holds for one must hold for each."""

from __future__ import annotations

import pytest

from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer

TOKENIZERS = {file.parent.name: Tokenizer(file) for file in sorted(EMBEDDED.parent.glob("*/tokenizer.json"))}
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
