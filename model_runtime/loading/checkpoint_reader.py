"""Everything in a checkpoint's folder except its weights: configuration, tokenizer and prompt template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from model_runtime.checkpoint.adapter import Adapter, base_folder, find_adapter
from model_runtime.checkpoint.config import ModelConfig, UnknownArchitecture, gguf_config, read_config
from model_runtime.checkpoint.gguf.header import GgufHeader, read_header
from model_runtime.checkpoint.gguf.tensors import find_tensors
from model_runtime.checkpoint.gguf.tokenizer import TOKENS, marker_names, read_cuts, tokenizer_files
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weight_files import MERGE, gguf_file, hashed_files
from model_runtime.errors import ModelError
from model_runtime.prompt.families import FAMILIES, MARKER_NAMES
from model_runtime.prompt.template import NO_TEMPLATE_REMEDY, Template, find_template
from model_runtime.prompt.tokenizer import Tokenizer

MARKER_SHAPE = re.compile(r"<.+>|\[.+\]", re.DOTALL)  # the look of a marker that its tokenizer treats as text
OTHER_TOKENIZERS = ("tokenizer.model", "tekken.json", "vocab.json", "spiece.model", "tiktoken.model")
MOST_PADDING = 1024  # entries that models have beyond their tokenizers', to round their sizes
MOST_PADDING_SHARE = 0.05  # the same for large vocabularies

TemplateOverride = Sequence[tuple[str, str | Sequence[str]]]  # what a user sets in place of the infilling markers


class Checkpoint(NamedTuple):
    """The config, tokenizer and template of a model, and the folder of its weights, or its GGUF file.

    Of an adapter these are its base's.
    """

    folder: Path
    config: ModelConfig
    tokenizer: Tokenizer
    template: Template
    adapter: Adapter | None = None

    @property
    def named(self) -> Path:
        """The folder that a user names."""
        return self.adapter.folder if self.adapter else self.folder

    @property
    def files(self) -> list[Path]:
        """The files that keys and values depend on."""
        return hashed_files(self.folder) + (self.adapter.files if self.adapter else [])

    @property
    def quantization(self) -> str:
        """The type that most numbers of a GGUF file have (`Q4_0`), empty for other checkpoints."""
        file = None if self.adapter else gguf_file(self.folder)
        return read_header(file).quantization if file else ""


def read_checkpoint(folder: Path, override: TemplateOverride = ()) -> Checkpoint:
    """Read a folder; ModelError says why it cannot be used."""
    adapter = find_adapter(folder)
    folder = adapter.base if adapter else folder
    config = read_architecture(folder)
    if adapter and config.foreign:
        raise ModelError(f"transformers computes {folder}, without adapters: {MERGE}")
    tokenizer = read_tokenizer(folder, config)
    own = marker_names(read_header(file)) if (file := gguf_file(folder)) else {}
    template = find_template(tokenizer, dict(override), config.end_ids, own)
    return Checkpoint(folder, config, tokenizer, template, adapter)


def inspect_gguf(header: GgufHeader) -> tuple[ModelConfig, str]:
    """Return the config of a GGUF file's model and its family of markers, by its header alone.

    ModelError says why it cannot be used. A tokenizer, which is not made here, may show further faults.
    """
    config, names = gguf_config(header), header.held_texts(TOKENS, MARKER_NAMES)
    find_tensors(header, expected_shapes(config))
    read_cuts(header)
    _check_size(header.count_texts(TOKENS), config, f"the tokenizer of {header.path}")
    families = (each for each in FAMILIES if not each.folders and names.issuperset((*each.markers, *each.ends)))
    if family := next(families, None):
        return config, family.name
    if {"prefix", "suffix"} <= marker_names(header).keys():
        return config, "own"
    raise ModelError(f"the tokenizer has no fill-in-the-middle tokens: {NO_TEMPLATE_REMEDY}")


def read_architecture(folder: Path) -> ModelConfig:
    """Read `config.json`, of an adapter its base's.

    ModelError if neither our decoder nor transformers can compute the model.
    """
    folder = base_folder(folder)
    try:
        return read_config(folder)
    except UnknownArchitecture as error:
        try:
            from model_runtime.decoder.hf.config import hf_config  # transformers takes two seconds to import
        except ImportError as missing:
            reason = str(missing).partition("\n")[0]
            needed = f"transformers 5.23 or newer, which may know it, is not here ({reason})"
            raise ModelError(f"{error}; {needed}: run pip install '.[foreign]' in a clone of efim-ls") from None
        return hf_config(folder)


def read_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    """Read a checkpoint's tokenizer, of an adapter its base's; ModelError if it is missing or another model's.

    Another model's would give wrong text without any error.
    """
    folder = base_folder(folder)
    path = folder / "tokenizer.json"
    if file := gguf_file(folder):
        files = tokenizer_files(read_header(file))
        tokenizer = Tokenizer(path, config.vocab, lambda path: files[path.name])
    elif path.exists():
        tokenizer = Tokenizer(path, config.vocab)
    else:
        raise ModelError(f"{folder} has no tokenizer.json{_instead(folder)}")
    _check(tokenizer, config, f"the tokenizer of {file}" if file else "tokenizer.json")
    return tokenizer


def _instead(folder: Path) -> str:
    """Return what a folder has in place of a tokenizer.json, and what helps."""
    other = next((name for name in OTHER_TOKENIZERS if (folder / name).exists()), None)
    if other is None:
        return ": fetch the model again"
    return f", only {other}, which is not read: convert it with AutoTokenizer and save_pretrained of transformers"


def _check(tokenizer: Tokenizer, config: ModelConfig, which: str) -> None:
    """Refuse a tokenizer of a very different size, and one whose end token is no marker."""
    _check_size(tokenizer.vocab, config, which)
    for end in config.end_ids:
        spelled = tokenizer.token_bytes[end].decode("utf-8", "replace") if end < tokenizer.vocab else ""
        if spelled and not MARKER_SHAPE.fullmatch(spelled):
            cause = f"config.json ends texts at token {end}, which is {spelled!r} here"
            raise ModelError(f"{which} is another model's ({cause}): fetch the model again")


def _check_size(has: int, config: ModelConfig, which: str) -> None:
    if not 0 <= config.vocab - has <= max(MOST_PADDING, config.vocab * MOST_PADDING_SHARE):
        sizes = f"the tokenizer has {has} tokens, the model {config.vocab}"
        raise ModelError(f"{which} is another model's ({sizes}): fetch the model again")
