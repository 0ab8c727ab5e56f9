"""A server with a surer suggestion than the embedded model's, which says it when it is let."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import quick_decoder_of
from tests.engine.remote.fakes import Event, serving
from tests.engine.remote.test_local_first import Saying
from tests.waiting import HANG, eventually

from ..drivers.shapes import BEGUN

BETTER = "ght = rect.height, rect.width"


class Elsewhere(Saying):
    """A server that also tells when it has `said` all of an answer."""

    def __init__(self, *model: Any) -> None:
        super().__init__(*model)
        self.line, self.sure, self.context = f"    {BEGUN}{BETTER}\n", 0.9999, 2560
        self.said = threading.Event()

    def events(self, body: Event) -> Iterator[Event]:
        yield from super().events(body)
        self.said.set()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that name it, for a server that is patient."""
        engine = {"url": self.url, "wait_seconds": HANG}
        return {"engine": engine, "prefetch_seconds_per_minute": 0, "suggestions": 0.2}

    def hold_back(self) -> None:
        """Say nothing from now on."""
        self.go.clear()
        self.said.clear()

    def see_said(self) -> None:
        """Let it say what it has held back, and wait until it has."""
        self.go.set()
        eventually(self.said.is_set, lambda: "the server was asked for nothing")


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    with serving(Elsewhere(quick_decoder_of(EMBEDDED), Tokenizer(EMBEDDED / "tokenizer.json"))) as served:
        assert isinstance(served, Elsewhere)
        yield served
