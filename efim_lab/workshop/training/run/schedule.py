"""The plan of a run: its budget, and the learning rate and the length of rows that follow from the share spent."""

from dataclasses import dataclass
from typing import Protocol

from efim_lab.workshop.training.checkpoint import RunProgress


class Budget(Protocol):
    """How long a run trains."""

    def share(self, progress: RunProgress) -> float:
        """Return the share that is spent, from 0 to 1."""
        ...


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """A budget in seconds of training."""

    seconds: float

    def share(self, progress: RunProgress) -> float:
        """Return the share of the seconds that has passed."""
        return min(1.0, progress.elapsed / self.seconds)


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A budget in tokens; tokens of the run that this run branched off do not count."""

    tokens: int

    def share(self, progress: RunProgress) -> float:
        """Return the share of the tokens that the run has seen."""
        return min(1.0, (progress.tokens - progress.branched) / self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The schedule of a run; `lengths` are (share of the budget at which it begins, tokens in a row).

    The rate rises over the first `warmup_tokens`, stays at `rate`, and falls to zero over the last share `decay` of
    the budget (WSD); with a decay of 0 it never falls. The rate also rises again wherever a run went on with fresh
    optimizer state. A step has whole rows with at least `tokens_per_step` tokens in all; they go through the model in
    passes of `tokens_at_once`, which bounds memory.
    """

    seed: int = 0
    rate: float = 3e-3
    warmup_tokens: int = 500_000
    decay: float = 1.0
    tokens_per_step: int = 4096
    tokens_at_once: int = 4096
    lengths: tuple[tuple[float, int], ...] = ((0.0, 512), (0.6, 2048))
    clip: float = 1.0

    def rows_in_step(self, length: int) -> int:
        """Return how many rows of `length` tokens a step has."""
        # Rounded up: of 8,192 tokens, 3 rows of 2,560 would leave one of two threads idle.
        return -(-self.tokens_per_step // length)

    def rate_at(self, progress: RunProgress, share: float) -> float:
        """Return the learning rate of the next step, at which `share` of the budget is spent."""
        risen = progress.tokens - max(progress.fresh, default=0) + self.tokens_per_step
        falling = (1.0 - share) / self.decay if self.decay else 1.0
        return self.rate * min(1.0, risen / max(1, self.warmup_tokens)) * min(1.0, falling)

    def length_at(self, progress: RunProgress, share: float) -> int:
        """Return the number of tokens in a row of the next step; rows never become shorter, even if plans change."""
        planned = max((start, length) for start, length in self.lengths if start <= share)[1]
        return max(planned, progress.length)
