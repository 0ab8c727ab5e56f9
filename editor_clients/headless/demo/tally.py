"""The demo's counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, quantiles

from rich.table import Table

from editor_clients.headless.demo.typist import Moment


def infilling(moment: Moment) -> int:
    """Count what FIM with prefix reuse would recompute: the key, the tail after it and two markers."""
    costs = moment.completion.costs
    return max(costs["tail"] + 3, costs["recomputed"])


@dataclass
class Tally:
    """Sums over the keys pressed so far; `milliseconds` has one entry per key."""

    shown: int = 0
    accepted: int = 0
    saved: int = 0
    reused: int = 0
    recomputed: int = 0
    infilling: int = 0
    milliseconds: list[float] = field(default_factory=list)

    def add(self, moment: Moment) -> None:
        """Count a key."""
        costs = moment.completion.costs
        if moment.accepted:
            self.accepted += 1
            self.saved += moment.accepted - 1
        self.shown += bool(moment.completion.text)
        self.reused += costs["reused"]
        self.recomputed += costs["recomputed"]
        self.infilling += infilling(moment)
        self.milliseconds.append(costs["ms"]["total"])

    @property
    def reuse(self) -> float:
        """The share of all prompt tokens that were not recomputed."""
        return self.reused / max(self.reused + self.recomputed, 1)

    def table(self) -> Table:
        """Format the sums as a table."""
        table = Table(title="The session", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for label, value in (
            ("keystrokes", f"{len(self.milliseconds)}"),
            ("suggestions shown", f"{self.shown}"),
            ("suggestions accepted", f"{self.accepted}"),
            ("keystrokes saved", f"{self.saved}"),
            ("tokens reused", f"{self.reused:,} ({self.reuse:.1%})"),
            ("tokens recomputed", f"{self.recomputed:,}"),
            ("the same with FIM prompts, at least", f"{self.infilling:,}"),
            ("milliseconds a keystroke, median", f"{median(self.milliseconds):.1f}"),
            ("milliseconds a keystroke, 95th percentile", f"{quantiles(self.milliseconds, n=20)[-1]:.1f}"),
        ):
            table.add_row(label, value)
        return table
