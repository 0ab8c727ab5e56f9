"""What was asked, answered, spent and done with the suggestions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Literal

from efim_ls.request import Answer, Costs

Count = Literal[
    "requests", "recomputed", "reused", "offered", "shown", "accepted", "partially_accepted", "taken",
    "characters_accepted", "characters_kept",
]  # fmt: skip
REMEMBERED = 1000  # answers whose times are kept

Keep = Callable[[str, Mapping[Count, int]], None]


class Counters:
    """What was asked, answered, spent and done with the suggestions, since the start.

    Suggestions are counted once, however often what is left of them is offered: `offered`; `shown`, where the editor
    tells; `taken`, which were accepted whole or in part. `characters_kept` are those of the `characters_accepted`
    that were still there some time later.
    """

    def __init__(self, keep: Keep = lambda language, counts: None) -> None:
        """Pass what is counted on to `keep`, with the language that it is of."""
        self.answered: Counter[str] = Counter()
        self._keep = keep
        self._counts: Counter[Count] = Counter()
        self._milliseconds: deque[float] = deque(maxlen=REMEMBERED)
        self._last: tuple[str, str | None, Costs] | None = None

    def add(self, language: str, counts: Mapping[Count, int]) -> None:
        """Count what happened in a document of a language."""
        self._counts.update(counts)
        self._keep(language, counts)

    def answer(self, language: str, outcome: str) -> None:
        """Count an answer: a suggestion, or why there was none."""
        self.answered[outcome] += 1
        self.add(language, {"requests": 1})

    def refuse(self, uri: str, language: str, reason: str) -> None:
        """Count a request that was answered without the model."""
        self.answer(language, reason)
        self._last = (uri, reason, Costs())

    def spend(self, uri: str, language: str, answer: Answer) -> None:
        """Add up what an answer of the model cost."""
        self._last = (uri, answer.reason, answer.costs)
        self.add(language, {"recomputed": answer.costs.recomputed, "reused": answer.costs.reused})
        if answer.reason != "superseded":
            self._milliseconds.append(answer.costs.ms.total)

    @property
    def last(self) -> dict[str, object] | None:
        """The last answer in short, for people."""
        if self._last is None:
            return None
        uri, reason, costs = self._last
        spent = {"reused": costs.reused, "recomputed": costs.recomputed, "ms": costs.ms.total}
        return {"uri": uri, "reason": reason, **spent}

    @property
    def suggestions(self) -> dict[str, float | None]:
        """What became of suggestions."""
        of = self._counts
        return {
            "shown": of["shown"],
            "accepted": of["accepted"],
            "partially_accepted": of["partially_accepted"],
            "acceptance_rate": share(of["taken"], of["shown"]),
            "kept_rate": share(of["characters_kept"], of["characters_accepted"]),
        }

    def report(self) -> dict[str, object]:
        """All of it as plain values."""
        of, (uri, reason, costs) = self._counts, self._last or (None, None, None)
        return {
            "requests": self.answered.total(),
            "answered": dict(self.answered),
            "offered": of["offered"],
            **self.suggestions,
            "characters_accepted": of["characters_accepted"],
            "characters_kept": of["characters_kept"],
            "tokens": {"recomputed": of["recomputed"], "reused": of["reused"]},
            "ms": {f"p{percent}": _percentile(self._milliseconds, percent) for percent in (50, 95)},
            "last": costs and asdict(costs),
            "last_reason": reason,
            "last_uri": uri,
        }


def share(part: int, whole: int) -> float | None:
    """What share of the whole a part is; of nothing there is none."""
    return part / whole if whole else None


def _percentile(values: deque[float], percent: int) -> float | None:
    return sorted(values)[(len(values) - 1) * percent // 100] if values else None
