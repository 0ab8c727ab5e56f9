"""Fits the weights of a finished model to another tokenizer, such as another language's."""

import torch
from tokenizers import Tokenizer

_LOOKED_UP = ("embed_tokens.weight", "token_values.weight")  # matrices with a row for each token


def same_vocabulary(one: Tokenizer, other: Tokenizer) -> bool:
    """Return whether two tokenizers have the same entries."""
    return one.get_vocab() == other.get_vocab()


def fitted(weights: dict[str, torch.Tensor], known: Tokenizer, vocabulary: Tokenizer) -> dict[str, torch.Tensor]:
    """Return the weights of a finished model with a row for each entry of `vocabulary` instead of `known`.

    An entry that `known` has keeps its row; a new entry gets the mean of the rows of the tokens that `known` reads in
    its place.
    """
    if same_vocabulary(known, vocabulary):
        return weights
    read = [_read_as(known, entry) for entry in _entries(vocabulary)]
    return {
        name: torch.stack([rows[ids].mean(0) for ids in read]) if name.endswith(_LOOKED_UP) else rows
        for name, rows in weights.items()
    }


def _entries(vocabulary: Tokenizer) -> list[str]:
    by_id = {i: entry for entry, i in vocabulary.get_vocab().items()}
    return [by_id[i] for i in range(len(by_id))]


def _read_as(known: Tokenizer, entry: str) -> list[int]:
    """Return the ids that `known` has for an entry, whose bytes are spelled as byte-level BPE spells them."""
    same = known.token_to_id(entry)
    return [same] if same is not None else [token.id for token in known.model.tokenize(entry)]
