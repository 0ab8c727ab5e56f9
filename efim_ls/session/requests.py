"""The queue of completion requests: equal requests share an answer, a document's latest wins, bursts are delayed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from statistics import median

from efim_ls.request import Answer, Costs, Request
from efim_ls.session.engine_thread import EngineClient, Job

LONGEST_GAP = 1.0  # seconds: a longer gap is a pause to think, not part of the typing rhythm
FASTEST_GAP = 0.03  # seconds: about the repeat rate of a held key; answers need not be faster
LONGEST_DELAY = 0.3  # seconds: the most that other tools wait; after a longer wait a machine feels unresponsive
SHORT_ANSWER_STEPS = 8  # decode steps of a short answer: about the rest of a line
RECENT_SAMPLES = 20  # samples of each kind: few, so that a change of the machine's load is noticed within some words
TURN = 0.02  # seconds after which an answer lets those of other clients go before, and is continued behind them
FEWEST_SAMPLES = 5  # samples of each kind below which there is no delay


class Debounce:
    """Compares the cost of an answer with the time between keys. Times are seconds unless named `ms`."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._overtakes = False
        self._gaps: deque[float] = deque(maxlen=RECENT_SAMPLES)
        self._steps: deque[float] = deque(maxlen=RECENT_SAMPLES)
        self._firsts: deque[float] = deque(maxlen=RECENT_SAMPLES)

    def note_request(self, now: float, overtakes: bool) -> None:
        """Note the time of an automatic request, by any monotonic clock.

        `overtakes`: the previous request is not answered yet. Otherwise there is no burst, and no delay.
        """
        self._overtakes = overtakes
        if self._last is not None and now - self._last <= LONGEST_GAP:
            self._gaps.append(now - self._last)
        self._last = now

    def note_step(self, ms: float, first_ms: float) -> None:
        """Note an answer's milliseconds per decode step, and those to its first new token."""
        self._steps.append(ms)
        self._firsts.append(first_ms)

    def delay(self) -> float:
        """Return the delay: 0 if an answer takes at most half a typical gap, rising to a gap if it takes a gap."""
        if not self._overtakes or min(len(self._gaps), len(self._steps)) < FEWEST_SAMPLES:
            return 0.0
        cost = (median(self._firsts) + SHORT_ANSWER_STEPS * median(self._steps)) / 1e3
        gap = max(FASTEST_GAP, median(self._gaps))
        return min(max(0.0, 2 * cost - gap), gap, LONGEST_DELAY)


class _UnderWay:
    def __init__(self, request: Request, answer: asyncio.Future[Answer]) -> None:
        self.request, self.answer, self.asking = request, answer, 0


class RequestQueue:
    """Sends each document's latest request to the engine thread. Used on the event loop only."""

    def __init__(self, engine: EngineClient, job_of: Callable[[Request], Job[Answer]]) -> None:
        """Run `job_of(request)` on the engine thread, under the document's URI."""
        self.debounce = Debounce()
        self._engine, self._job_of = engine, job_of
        self._under_way: dict[str, _UnderWay] = {}

    async def answer(self, request: Request) -> Answer:
        """Return the answer to a request, shared with an equal one in progress; raises what its job raises.

        A different request supersedes the document's older one, whose callers get `Cancelled`. Cancelling this stops
        the job unless another caller waits for it.
        """
        uri, work = request.uri, self._under_way.get(request.uri)
        if work is None or work.answer.done() or work.request != request:
            job = self._engine.run(uri, self._job_of(request), after=self._wait_before(request), turn=TURN)
            work = self._under_way[uri] = _UnderWay(request, job)
        work.asking += 1
        try:
            return await asyncio.shield(work.answer)
        finally:
            work.asking -= 1
            if not work.asking:
                work.answer.cancel()
                if self._under_way.get(uri) is work:
                    del self._under_way[uri]

    def note_costs(self, costs: Costs) -> None:
        """Learn from what an answer cost, if it took decode steps."""
        if costs.passes:
            self.debounce.note_step(costs.ms.decode / costs.passes, costs.ms.prefill)

    def _wait_before(self, request: Request) -> float:
        if request.explicit:
            return 0.0
        self.debounce.note_request(asyncio.get_running_loop().time(), self._engine.is_asked(request.uri))
        return self.debounce.delay()
