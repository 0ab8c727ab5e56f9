"""Fill-in-the-middle markers of model families, found by the special tokens a tokenizer has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from model_runtime.errors import ModelError

# prefix, suffix, middle; the first family whose three markers are all there is taken
MARKERS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)


@dataclass(frozen=True)
class Template:
    """Marker ids of the prompt `prefix head suffix tail middle typed`."""

    prefix: int
    suffix: int
    middle: int


def find_template(special: Mapping[str, int]) -> Template:
    """Pick the template by the special tokens; ModelError where the model has no infilling markers."""
    for names in MARKERS:
        if all(name in special for name in names):
            return Template(*(special[name] for name in names))
    raise ModelError("the tokenizer has no fill-in-the-middle tokens: use a code model trained to infill")
