"""The users' prompts, round by round, cut out of a text as in the paper, and three schemes to serve them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from model_runtime.ids import Ids
from model_runtime.prompt.prompt import assemble
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer


class Workload(NamedTuple):
    """A text as a user works on it: head and tail stay, typed grows by a slice of the text each round.

    Answers never become part of it: typed text comes from the text. The text's last slice stays unseen.
    """

    head: str
    tail: str
    typed: tuple[str, ...]


def cut_workload(text: str, rounds: int) -> Workload:
    """Cut a text: the first half into rounds + 2 slices, the first being the head; the second half is the tail.

    Cut by characters, inside words too, as the published benchmark does. Slices of a very short text are empty.
    """
    half, slices = len(text) // 2, rounds + 2
    ends = [half * n // slices for n in range(1, slices)]
    return Workload(text[: ends[0]], text[half:], tuple(text[ends[0] : end] for end in ends[1:]))


PromptOrder = Callable[[Tokenizer, Template, Workload, str], Ids]


def fim_ids(tokenizer: Tokenizer, template: Template, work: Workload, typed: str) -> Ids:
    """Build `PREFIX head+typed SUFFIX tail MIDDLE`."""
    return assemble(tokenizer, template, work.head + typed, work.tail, "").ids


def efim_ids(tokenizer: Tokenizer, template: Template, work: Workload, typed: str) -> Ids:
    """Build `PREFIX head SUFFIX tail MIDDLE typed`."""
    return assemble(tokenizer, template, work.head, work.tail, typed).ids


class Scheme(NamedTuple):
    """A scheme: the prompt order, and whether a prompt reuses what the one before left in the arena."""

    name: str
    order: PromptOrder
    reuses: bool

    def prompts(self, tokenizer: Tokenizer, template: Template, work: Workload) -> list[Ids]:
        """Return a user's prompts, one for each round."""
        return [self.order(tokenizer, template, work, typed) for typed in work.typed]


NO_REUSE = Scheme("FIM, no reuse", fim_ids, reuses=False)
FIM_REUSE = Scheme("FIM, prefix reuse", fim_ids, reuses=True)
EFIM_REUSE = Scheme("EFIM, prefix reuse", efim_ids, reuses=True)
SCHEMES = (NO_REUSE, FIM_REUSE, EFIM_REUSE)
