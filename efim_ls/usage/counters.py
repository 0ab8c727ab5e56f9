"""Counts of requests, answers, costs and what users did with suggestions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Literal

from efim_ls.request import Answer, Reason

Count = Literal[
    "requests", "recomputed", "reused", "offered", "shown", "accepted", "partially_accepted", "taken",
    "characters_accepted", "characters_kept",
]  # fmt: skip
TIMED_ANSWERS = 1000  # answers that the percentiles of times cover

Record = Callable[[str, Mapping[Count, int]], None]


class Counters:
    """Counts since the server started.

    A suggestion counts once, even if its remainder is offered again after each key: as `offered`, as `shown` (if the
    editor reports that), and as `taken` if it was accepted, whole or in part. `characters_kept` of the
    `characters_accepted` were still in the document some time later.
    """

    def __init__(self, record: Record = lambda language, counts: None) -> None:
        """Pass every count to `record` as well, with its language."""
        self.answered: Counter[str] = Counter()
        self._record = record
        self._counts: Counter[Count] = Counter()
        self._milliseconds: deque[float] = deque(maxlen=TIMED_ANSWERS)
        self._last: tuple[str, Answer] | None = None

    def add(self, language: str, counts: Mapping[Count, int]) -> None:
        """Add counts of a document in a language."""
        self._counts.update(counts)
        self._record(language, counts)

    def count_answer(self, language: str, outcome: str) -> None:
        """Count an answer by its outcome: a suggestion, or the reason for none."""
        self.answered[outcome] += 1
        self.add(language, {"requests": 1})

    def count_refusal(self, uri: str, language: str, reason: Reason) -> None:
        """Count a request that was answered without the model."""
        self.count_answer(language, reason)
        self._last = (uri, Answer("", reason=reason))

    def count_costs(self, uri: str, language: str, answer: Answer) -> None:
        """Add the costs of an answer from the model."""
        self._last = (uri, answer.without_text())
        self.add(language, {"recomputed": answer.costs.recomputed, "reused": answer.costs.reused})
        if answer.reason != "superseded":
            self._milliseconds.append(answer.costs.ms.total)

    @property
    def last(self) -> dict[str, object] | None:
        """A summary of the last answer, for people."""
        if self._last is None:
            return None
        uri, answer = self._last
        costs = answer.costs
        spent = {"reused": costs.reused, "recomputed": costs.recomputed, "ms": costs.ms.total}
        return {"uri": uri, "reason": answer.reason, **spent}

    @property
    def typical_ms(self) -> float | None:
        """Milliseconds of a typical key: half of the last answers took no more; None before the first."""
        return _percentile(self._milliseconds, 50)

    @property
    def suggestions(self) -> dict[str, float | None]:
        """Counts and rates of shown, accepted and kept suggestions."""
        of = self._counts
        return {
            "shown": of["shown"],
            "accepted": of["accepted"],
            "partially_accepted": of["partially_accepted"],
            "acceptance_rate": ratio(of["taken"], of["shown"]),
            "kept_rate": ratio(of["characters_kept"], of["characters_accepted"]),
        }

    def report(self) -> dict[str, object]:
        """Return all counts as plain values."""
        of, (uri, answer) = self._counts, self._last or (None, None)
        return {
            "requests": self.answered.total(),
            "answered": dict(self.answered),
            "offered": of["offered"],
            **self.suggestions,
            "characters_accepted": of["characters_accepted"],
            "characters_kept": of["characters_kept"],
            "tokens": {"recomputed": of["recomputed"], "reused": of["reused"]},
            "ms": {f"p{percent}": _percentile(self._milliseconds, percent) for percent in (50, 95)},
            "last": answer and asdict(answer.costs),
            "last_reason": answer and answer.reason,
            "last_confidence": answer and answer.confidence,
            "last_uri": uri,
        }


def ratio(part: int, whole: int) -> float | None:
    """Return part / whole, None if the whole is 0."""
    return part / whole if whole else None


def _percentile(values: deque[float], percent: int) -> float | None:
    return sorted(values)[(len(values) - 1) * percent // 100] if values else None
