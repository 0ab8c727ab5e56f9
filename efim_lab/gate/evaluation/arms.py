"""The arms of an evaluation: prompt orders, healed or not, and what chooses the next token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from efim_lab.gate.evaluation.places.cursors import Context
from efim_ls.completion.planning.planner import new_anchor
from efim_ls.completion.planning.window import Budget, Window
from model_runtime.prompt.prompt import Prompt, assemble, build, heal
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer

# What chooses tokens: the model, the server's mixture with the n-grams, or the cache where it has counts.
Chooser = Literal["model", "mixture", "counts"]


@dataclass(frozen=True)
class Arm:
    """One way to prompt and decode; `has_bits` if the prompt ends at the cursor and the model alone decides."""

    name: str
    prompt: Callable[[Tokenizer, Template, Context], Prompt]
    chooser: Chooser = "model"
    has_bits: bool = False


def fim(tokenizer: Tokenizer, template: Template, context: Context) -> Prompt:
    """Build `PREFIX head typed SUFFIX tail MIDDLE`, cut at the cursor."""
    return assemble(tokenizer, template, context.head + context.typed, context.tail, "")


def fim_healed(tokenizer: Tokenizer, template: Template, context: Context) -> Prompt:
    """Build FIM without the unfinished word, which the first new tokens must spell."""
    done, stub = heal(tokenizer, context.typed)
    return assemble(tokenizer, template, context.head + done, context.tail, "", stub)


def efim(tokenizer: Tokenizer, template: Template, context: Context) -> Prompt:
    """Build `PREFIX P0 SUFFIX tail MIDDLE increment`, cut at a random place before the cursor (arXiv 2505.21889)."""
    before = context.head + context.typed
    cut = max(0, len(before) - context.increment)
    return assemble(tokenizer, template, before[:cut], context.tail, before[cut:])


def efim_line(tokenizer: Tokenizer, template: Template, context: Context) -> Prompt:
    """Build `PREFIX head SUFFIX tail MIDDLE typed`, cut where the server would put a new anchor."""
    head, typed = _anchored(tokenizer, context)
    return assemble(tokenizer, template, head, context.tail, typed)


def served(tokenizer: Tokenizer, template: Template, context: Context) -> Prompt:
    """Build the prompt that the server would send: EFIM line, healed."""
    head, typed = _anchored(tokenizer, context)
    return build(tokenizer, template, head, context.tail, typed)


def _anchored(tokenizer: Tokenizer, context: Context) -> tuple[str, str]:
    """Return head and typed, split where the server would put a new anchor."""
    before, budget = context.head + context.typed, Budget()
    anchor = new_anchor(Window(budget, tokenizer.pieces), budget, before, len(before))
    return before[:anchor], before[anchor:]


FIM = Arm("FIM", fim, has_bits=True)
EFIM = Arm("EFIM", efim, has_bits=True)
SERVER = Arm("server", served, "mixture")
ARMS = (
    FIM,
    Arm("FIM healed", fim_healed),
    EFIM,
    Arm("EFIM line", efim_line, has_bits=True),
    Arm("EFIM line healed", served),
    SERVER,
    Arm("cache alone", served, "counts"),
)
