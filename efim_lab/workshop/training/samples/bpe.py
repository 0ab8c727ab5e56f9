"""The embedded model's tokenizer: byte-level BPE whose tokens never cross the start of a non-blank line."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from efim_lab.gate.errors import WorkError
from model_runtime.prompt.template import LANGUAGE_MARKER

END = "<|endoftext|>"
PREFIX, SUFFIX, MIDDLE = "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"
PAD, REPOSITORY, FILE = "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"
SPECIAL = (END, PREFIX, SUFFIX, MIDDLE, PAD, REPOSITORY, FILE)
ID = {token: i for i, token in enumerate(SPECIAL)}
VOCABULARY = 8192
CONTEXT = 2560
_SPLIT = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def train(texts: Iterable[str], vocabulary: int = VOCABULARY, languages: Iterable[str] = ()) -> Tokenizer:
    """Train a tokenizer of at most `vocabulary` entries, including the special tokens and all 256 bytes.

    Each of the `languages`, which have LSP's names, has a special token.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL, *map(LANGUAGE_MARKER.format, languages)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _reading_markers_as_text(tokenizer)


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and the tokenizer_config.json that transformers reads."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": END,
        "pad_token": PAD,
        "additional_special_tokens": [token for token in _special(tokenizer) if token not in (END, PAD)],
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "split_special_tokens": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def load(folder: Path) -> Tokenizer:
    """Load a tokenizer written by `save`."""
    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for any damaged file
        raise WorkError(f"cannot read {path} ({error}): make it with `tokenizer` first") from error
    if any(tokenizer.token_to_id(token) != i for token, i in ID.items()):
        raise WorkError(f"{path} has other special tokens: make it with `tokenizer`")
    return _reading_markers_as_text(tokenizer)


def _special(tokenizer: Tokenizer) -> list[str]:
    return [token.content for _, token in sorted(tokenizer.get_added_tokens_decoder().items()) if token.special]


def _reading_markers_as_text(tokenizer: Tokenizer) -> Tokenizer:
    """Make a special token that is spelled out in source code encode as plain text."""
    tokenizer.encode_special_tokens = True
    return tokenizer
