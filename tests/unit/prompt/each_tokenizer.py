"""The tokenizers of the models in this package: what holds for one must hold for each."""

from __future__ import annotations

import pytest

from model_runtime.checkpoint.embedded import SHIPPED
from model_runtime.prompt.tokenizer import Tokenizer

TOKENIZERS = {folder.name: Tokenizer(folder / "tokenizer.json") for folder in dict.fromkeys(SHIPPED.values())}
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
