"""A checkpoint that says one line wherever it is asked, as sure of it as it is told, by a table of what follows."""

from __future__ import annotations

import json
from math import log, sqrt
from pathlib import Path

import torch
from safetensors.torch import save_file

from model_runtime.prompt.tokenizer import Tokenizer
from tests.models import VOCABULARY, Tiny, config, random_weights, tokenizer_json

WIDTH = 448  # of a hidden state: a place for each token
TABLE = Tiny(tied=False, layers=1, hidden=WIDTH, context=2048)


def speaking(folder: Path, line: str, sure: float = 0.9999, **fields: object) -> Path:
    """Write a model that after each token of a line says the next, as sure of it as that; returns the folder.

    `fields` are further ones of its config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config(TABLE), **fields}), "utf-8")
    (folder / "tokenizer.json").write_text(tokenizer_json(), "utf-8")
    said = Tokenizer(folder / "tokenizer.json").encode(line).tolist()
    assert len(set(said)) == len(said), f"a token occurs twice in {line!r}, and so what follows it is not known"
    weights = {name: torch.zeros_like(each) for name, each in random_weights(TABLE).items()}
    for name, each in weights.items():
        if name.endswith("norm.weight"):
            each.fill_(1.0)
    tokens = torch.arange(VOCABULARY)
    weights["model.embed_tokens.weight"][tokens, tokens] = 1.0
    chance = log(sure / (1 - sure) * (VOCABULARY - 1))
    for before, after in zip(said, said[1:], strict=False):
        weights["lm_head.weight"][after, before] = chance / sqrt(WIDTH)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
