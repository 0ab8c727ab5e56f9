"""What clients over HTTP get of a session, without a process."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from efim_ls.http.completions import Completions
from efim_ls.http.documents import CursorContext, Snippet
from efim_ls.request import Answer, Request
from efim_ls.session import requests
from efim_ls.session.documents import MOST_CHARACTERS_OF_OTHERS
from efim_ls.session.loader import nothing_to_fetch
from efim_ls.session.session import Session
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from tests.lsp.stand_in import StandIn
from tests.waiting import HANG


class Unsure(StandIn):
    """Answers what is for somebody who has stopped typing, and keeps what it was asked."""

    asked: list[Request]

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        self.asked = [*getattr(self, "asked", []), request]
        return Answer("x", at_rest=True)


async def loaded() -> tuple[Session, Unsure, Completions]:
    session, model = Session(lambda settings, _: cast("Any", model), nothing_to_fetch), Unsure(Settings())
    session.configure(Settings())
    await session.load(lambda _, __: None)
    return session, model, Completions(session, None, "model")


async def test_nobody_waits_for_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PAUSE", 10 * HANG)
    session, _, completions = await loaded()
    async with asyncio.timeout(HANG):
        assert (await completions.complete(CursorContext("x = 1\n", ""))).text == "x"
    session.close(HANG)


async def test_texts_of_others_are_those_that_an_editor_would_read() -> None:
    session, model, completions = await loaded()
    long = "y" * (MOST_CHARACTERS_OF_OTHERS // 2 + 1)
    names = {
        "a.py": "a",
        "b.pyx": "b",
        "c.go": "c",
        "": "d",
        ".env.py": "e",
        "f.py": long,
        "g.py": long,
        "h.py": "h",
    }
    others = tuple(Snippet(name, text) for name, text in names.items())
    await completions.complete(CursorContext("x = 1\n", "", "m.py", others=others))
    assert model.asked[0].others == ("a", "b", long, "h")
    session.close(HANG)


@pytest.mark.parametrize("wanted, given", [(-1, 1), (0, 1), (3, 3), (1000, 8)])
async def test_a_client_gets_some_completions_and_not_too_many(wanted: int, given: int) -> None:
    session, model, completions = await loaded()
    await completions.complete(CursorContext("x = 1\n", ""), wanted)
    assert model.asked[0].count == given
    session.close(HANG)
