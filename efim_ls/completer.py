"""The contract of a loaded model, as the session uses it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Protocol

from efim_ls.answer import Ahead, Answer, Request
from efim_ls.engine_thread import Job, Stopped, Superseded
from efim_ls.settings import Settings

PARTING = 1.0  # seconds that each part of an end may take

Progress = Callable[[str, int], None]


class Completer(Protocol):
    """A loaded model. Used on the engine thread only, save for what says otherwise."""

    def complete(self, request: Request, stopped: Stopped, /) -> Answer:
        """Answer a request; soon after `stopped()` is true, as superseded."""
        ...

    def foresee(self, request: Request, /) -> Job[bool]:
        """Work that computes ahead what a request will need."""
        ...

    def foresee_opened(self, uri: str, text: str, /) -> Job[bool]:
        """Work that computes ahead what any first request in a document will need."""
        ...

    def explain(self, request: Request, /) -> dict[str, object]:
        """Tell what a request would send and cost."""
        ...

    def forget(self, uri: str, /) -> None:
        """Drop what is known of a document that was closed."""
        ...

    def drop(self, uri: str, /) -> None:
        """The same for one of which nothing more is to be kept."""
        ...

    def keep(self, uri: str, stopped: Stopped, /) -> bool:
        """Write behind what was computed for a document, also after it was closed; false if it was stopped."""
        ...

    def flush(self, seconds: float, /) -> bool:
        """Wait until what is kept is written; on any thread."""
        ...

    def close(self, seconds: float, then: Settings | None = None, /) -> None:
        """Write behind all that was computed, as far as the settings that come `then` allow it, and end."""
        ...

    def describe(self) -> dict[str, object]:
        """What runs where, and why."""
        ...

    @property
    def ahead(self) -> Ahead:
        """What was computed ahead of need; on any thread."""
        ...

    @property
    def tiers(self) -> list[dict[str, object]]:
        """What is kept where; on any thread."""
        ...


Load = Callable[[Settings, Progress], Completer]


def load_in_place_of(
    replaced: list[Completer], load: Load, settings: Settings, progress: Progress, stopped: Stopped
) -> tuple[Completer, dict[str, object]]:
    """Let go of models, then load another; on the engine thread. One that nobody wants any more is let go of, too."""
    if replaced:
        while replaced:
            replaced.pop().close(PARTING, settings)
        gc.collect()  # cycles may hold the model that is being replaced, and its arenas are large
    completer = load(settings, _unless(stopped, progress))
    if stopped():
        replaced.append(completer)
    return completer, completer.describe()


def _unless(stopped: Stopped, progress: Progress) -> Progress:
    """Tell what is new of the progress; where nobody wants the model any more, end its loading there."""
    told: tuple[str, int] | None = None

    def tell(message: str, percent: int) -> None:
        nonlocal told
        if stopped():
            raise Superseded
        if told != (message, percent):
            told = message, percent
            progress(message, percent)

    return tell
