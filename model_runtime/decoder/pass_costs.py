"""What passes cost on this machine, learnt from timed passes."""

from __future__ import annotations

from model_runtime.decoder.any_decoder import CHUNK

DECAY = 0.95  # weight of earlier passes each time one is recorded
DEFAULT_EXTRA_ROW_COST = 0.1  # cost of a further row of a small pass, in passes of one row, before any was timed
PREFILL_PASS_MS = 8.0  # milliseconds that a pass of a prompt should take: a newer request waits for its end
LEAST_CHUNK = 32  # rows of such a pass, even if it takes longer: narrower ones read the weights too often
LEAST_BACKGROUND_CHUNK = 4  # the same of one ahead of need
DECODE_ROWS = 16  # most rows of a decode step with a draft


class PassCosts:
    """Milliseconds of a decode step as a linear function of its rows, and of one row of the last wider pass."""

    def __init__(self, chunk: int = CHUNK) -> None:
        """Start without measurements; `chunk` is the most rows of a prefill pass."""
        self._chunk = chunk
        self._sums = [0.0] * 5  # weights, rows, rows², ms, rows · ms
        self._ms_per_row: float | None = None

    def record(self, rows: int, ms: float) -> None:
        """Record the time of a pass."""
        if rows <= DECODE_ROWS:
            terms = (1.0, rows, rows * rows, ms, rows * ms)
            self._sums = [DECAY * old + new for old, new in zip(self._sums, terms, strict=True)]
        if rows >= LEAST_BACKGROUND_CHUNK:
            self._ms_per_row = max(ms, 1e-3) / rows

    @property
    def extra_row_cost(self) -> float:
        """Cost of one more row in a decode step, in passes of one row."""
        n, x, xx, y, xy = self._sums
        spread = n * xx - x * x
        if spread < 1e-6 * max(1.0, xx):
            return DEFAULT_EXTRA_ROW_COST
        slope = (n * xy - x * y) / spread
        one = (y - slope * (x - n)) / n
        return max(slope, 0.0) / one if one > 0 else DEFAULT_EXTRA_ROW_COST

    def best_draft_length(self, chance: float, most: int) -> int:
        """Return how many tokens to draft if each is right with this chance, given that those before it are.

        That is the number with the most tokens for the time of a pass.
        """
        best, rate, gain, each, cost = 0, 1.0, 1.0, 1.0, self.extra_row_cost
        for drafted in range(1, most + 1):
            each *= chance
            gain += each
            if gain / (1.0 + drafted * cost) > rate:
                best, rate = drafted, gain / (1.0 + drafted * cost)
        return best

    @property
    def chunk(self) -> int:
        """Rows of a pass of a prompt that is waited for."""
        least = min(LEAST_CHUNK, self._chunk)
        return self._chunk if self._ms_per_row is None else max(self.background_chunk, least)

    @property
    def background_chunk(self) -> int:
        """Rows of a pass ahead of need: as many as a keystroke can afford to wait for."""
        if self._ms_per_row is None:
            return LEAST_BACKGROUND_CHUNK
        return max(LEAST_BACKGROUND_CHUNK, min(self._chunk, int(PREFILL_PASS_MS / self._ms_per_row)))
