"""The planners of documents: of those that are open, and of those that were closed and are still to be kept."""

from __future__ import annotations

from collections.abc import Callable

from efim_ls.completion.planner import Frame, Plan, Planner
from efim_ls.request import Request


class Frames:
    """A planner for each document, the one used last at the end.

    What is foreseen has suggestions in it that nobody may ever accept. So the frames of plans that were asked for are
    remembered beside the planners, as they were then: these are the user's text.
    """

    def __init__(self, make: Callable[[], Planner], recall: Callable[[str], list[Plan]]) -> None:
        """Make a planner where a document has none, with the frames that are recalled of it."""
        self._make, self._recall = make, recall
        self._open: dict[str, Planner] = {}
        self._closed: dict[str, Planner] = {}
        self._asked: dict[str, dict[int, Frame]] = {}

    @property
    def documents(self) -> list[str]:
        """All documents whose frames are still to be kept, the one used last first."""
        return [*reversed(self._open), *self._closed]

    def planner(self, uri: str) -> Planner:
        """The document's planner, which is the one used last from now on."""
        planner = self._open.pop(uri, None) or self._closed.pop(uri, None) or self._recalled(uri)
        self._open[uri] = planner
        return planner

    def plan(self, request: Request) -> Plan:
        """The plan of a request."""
        planner = self.planner(request.uri)
        plan = planner.plan(request.text, request.cursor)
        self._asked.setdefault(request.uri, {})[plan.number] = planner.frames[-1]
        return plan

    def asked(self, uri: str) -> list[Frame]:
        """The frames that a document's planner remembers, as they were asked for last."""
        planner, asked = self._open.get(uri) or self._closed.get(uri), self._asked.get(uri, {})
        numbers = [frame.plan.number for frame in planner.frames] if planner else []
        self._asked[uri] = {number: asked[number] for number in numbers if number in asked}
        return list(self._asked[uri].values())

    def close(self, uri: str) -> None:
        """Say that a document was closed; its planner stays until it is kept."""
        if planner := self._open.pop(uri, None):
            self._closed[uri] = planner

    def kept(self, uri: str) -> None:
        """Say that a document's frames are kept: nothing else is needed of one that was closed."""
        self._closed.pop(uri, None)
        if uri not in self._open:
            self._asked.pop(uri, None)

    def clear(self) -> None:
        """Forget all documents."""
        self._open.clear()
        self._closed.clear()
        self._asked.clear()

    def _recalled(self, uri: str) -> Planner:
        planner = self._make()
        planner.recall(self._recall(uri))
        self._asked[uri] = {frame.plan.number: frame for frame in planner.frames}
        return planner
