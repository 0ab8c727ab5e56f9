"""Measures an exported model on held-out files: bits per character, and lines completed as the server asks."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import LlamaForCausalLM

from model_runtime import prompt
from model_runtime.load import Model, load
from model_runtime.stops import StopRule
from model_runtime.training import bpe, network
from model_runtime.training.corpus import Document

_TEXT, _HEAD, _TAIL = 6000, 5500, 1400  # characters: a passage, and a prompt's head and tail
_LONGEST_LINE = 96  # tokens


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; `exact` are shares of cursors whose rest of line came out right."""

    bits_per_character: float
    cursors: int
    exact: float
    exact_with_local_cache: float


class Cursor(NamedTuple):
    """A place to complete at, and the rest of its line."""

    head: str
    typed: str
    rest: str
    tail: str


def measure(folder: Path, documents: Sequence[Document], cursors: int = 200, passages: int = 48) -> Figures:
    """Measure the model in `folder`, at places that depend on the documents alone."""
    rng = random.Random(0)
    texts = [_passage(rng.choice(documents).text, rng) for _ in range(passages)]
    places = [choose_cursor(rng.choice(documents).text, rng) for _ in range(cursors)]
    bits = _bits_per_character(folder, texts)
    return Figures(bits, cursors, _exact(folder, places, False), _exact(folder, places, True))


def choose_cursor(text: str, rng: random.Random) -> Cursor:
    """Choose a character of a non-blank line; what stands right of it is to be completed."""
    lines = text.splitlines(keepends=True)
    row = rng.choice([i for i, line in enumerate(lines) if not line.isspace()])
    line = lines[row].rstrip("\n")
    column = rng.randrange(len(line) - len(line.lstrip()), len(line))
    head, tail = "".join(lines[:row]), "".join(lines[row + 1 :])
    return Cursor(_last_lines(head, _HEAD), line[:column], line[column:], tail[:_TAIL])


def _last_lines(text: str, most: int) -> str:
    return text if len(text) <= most else text[text.find("\n", len(text) - most) + 1 :]


def _passage(text: str, rng: random.Random) -> str:
    start = rng.randint(0, max(0, len(text) - _TEXT))
    return text[text.rfind("\n", 0, start) + 1 :][:_TEXT]


@torch.inference_mode()
def _bits_per_character(folder: Path, texts: list[str]) -> float:
    """Bits of the passages' tokens after the first, over the characters that these spell."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)  # pyright: ignore[reportUnknownMemberType]
    tokenizer = bpe.load(folder)
    bits = characters = 0.0
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        loss = network.loss_of(model, torch.tensor([encoding.ids])).item()
        bits += loss * (len(encoding.ids) - 1) / math.log(2)
        characters += len(text) - encoding.offsets[0][1]
    return bits / characters


def _exact(folder: Path, places: list[Cursor], local_cache: bool) -> float:
    """Share of cursors whose line the engine finishes as it was, greedily."""
    model = load(folder, weights="auto", threads=1, capacity=bpe.CONTEXT, local_cache=local_cache, progress=_silent)
    line = StopRule(multiline=False, indent=0, max_lines=1)
    right = 0
    for place in places:
        answer = model.engine.generate("", _prompt(model, place), line, _LONGEST_LINE, lambda: False)
        right += answer.text.rstrip() == place.rest.rstrip()
    return right / len(places)


def _prompt(model: Model, place: Cursor) -> prompt.Prompt:
    """Build the prompt with as many of the head's last lines as fit."""
    lines = place.head.splitlines(keepends=True)
    while True:
        built = prompt.build(model.tokenizer, model.template, "".join(lines), place.tail, place.typed)
        if len(built.ids) <= bpe.CONTEXT - _LONGEST_LINE or not lines:
            return built
        lines = lines[len(lines) // 8 + 1 :]


def _silent(_phase: str, _percent: int) -> None:
    """Loading is not reported here."""
