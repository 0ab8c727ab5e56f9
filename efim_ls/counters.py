"""What was asked, answered, spent and done with the suggestions."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from dataclasses import asdict
from typing import Literal

from efim_ls.answer import Answer, Costs

Event = Literal["shown", "accepted", "partially_accepted"]
REMEMBERED = 1000  # suggestions whose fate may still be reported, and answers whose times are kept
NO_COSTS = Costs()


class Counters:
    """What was asked, answered, spent and done with the suggestions, since the start. Stays in this process."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self._events: Counter[Event] = Counter()
        self._tokens: Counter[str] = Counter()
        self._milliseconds: deque[float] = deque(maxlen=REMEMBERED)
        self._last: tuple[str, str | None, Costs] | None = None
        self._offers: dict[str, set[Event]] = {}
        self._numbers = itertools.count(1)

    def note(self, uri: str, reason: str | None, costs: Costs = NO_COSTS) -> None:
        """Remember what the last answer was."""
        self._last = (uri, reason, costs)

    def spend(self, uri: str, answer: Answer) -> None:
        """Add up what an answer of the model cost."""
        self.note(uri, answer.reason, answer.costs)
        self._tokens.update(recomputed=answer.costs.recomputed, reused=answer.costs.reused)
        if answer.reason != "superseded":
            self._milliseconds.append(answer.costs.ms.total)

    def offer(self) -> str:
        """Return the id by which a client will tell what became of a suggestion."""
        number = str(next(self._numbers))
        self._offers[number] = set()
        if len(self._offers) > REMEMBERED:
            del self._offers[next(iter(self._offers))]
        return number

    def tell(self, number: str, event: Event) -> None:
        """Count what became of a suggestion, once; ids that are unknown or forgotten count nothing."""
        seen = self._offers.get(number)
        if seen is not None and event not in seen:
            seen.add(event)
            self._events[event] += 1

    def report(self) -> dict[str, object]:
        """All of it as plain values."""
        uri, reason, costs = self._last or (None, None, None)
        return {
            "requests": self.answered.total(),
            "answered": dict(self.answered),
            "shown": self._events["shown"],
            "accepted": self._events["accepted"],
            "partially_accepted": self._events["partially_accepted"],
            "tokens": {"recomputed": self._tokens["recomputed"], "reused": self._tokens["reused"]},
            "ms": {f"p{percent}": _percentile(self._milliseconds, percent) for percent in (50, 95)},
            "last": costs and asdict(costs),
            "last_reason": reason,
            "last_uri": uri,
        }


def _percentile(values: deque[float], percent: int) -> float | None:
    return sorted(values)[(len(values) - 1) * percent // 100] if values else None
