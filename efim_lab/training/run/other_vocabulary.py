"""Starts a model from a finished one with another tokenizer, such as that of another language."""

from pathlib import Path

import torch
from tokenizers import Tokenizer

from efim_lab.training import checkpoint
from efim_lab.training.network import EfimForCausalLM
from efim_lab.training.samples import bpe

_LOOKED_UP = ("embed_tokens.weight", "token_values.weight")  # matrices with a row for each token


def has_vocabulary(folder: Path, vocabulary: Tokenizer) -> bool:
    """Return whether a finished model's tokenizer has the same entries."""
    return bpe.load(folder).get_vocab() == vocabulary.get_vocab()


def load_for_vocabulary(folder: Path, model: EfimForCausalLM, vocabulary: Tokenizer) -> None:
    """Load a finished model's weights; rows of tokens are made for the entries of another vocabulary.

    An entry that the finished model knows keeps its row; another one gets the mean of the rows of the tokens that the
    finished model would read in its place.
    """
    known = bpe.load(folder)
    weights = checkpoint.finished_weights(folder)
    read = [_read_as(known, entry) for entry in _entries(vocabulary)]
    for name, rows in weights.items():
        if name.endswith(_LOOKED_UP):
            weights[name] = torch.stack([rows[ids].mean(0) for ids in read])
    model.load_state_dict(weights)


def _entries(vocabulary: Tokenizer) -> list[str]:
    by_id = {i: entry for entry, i in vocabulary.get_vocab().items()}
    return [by_id[i] for i in range(len(by_id))]


def _read_as(known: Tokenizer, entry: str) -> list[int]:
    """Return the ids that `known` has for an entry, whose bytes are spelled as byte-level BPE spells them."""
    same = known.token_to_id(entry)
    return [same] if same is not None else [token.id for token in known.model.tokenize(entry)]
