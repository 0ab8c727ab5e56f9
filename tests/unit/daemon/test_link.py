"""A link to a daemon: it is given up when it is silent for too long while something is awaited, and only then."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from efim_ls.daemon import link as module
from efim_ls.daemon.address import Address
from efim_ls.daemon.link import PATIENCE, START, Hung, Link


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Link, socket.socket]]:
    """A link that looks without a pause, and the other end of its connection."""
    monkeypatch.setattr(module, "LOOK", 0)
    here, there = socket.socketpair()
    with here, there:
        yield Link(Address(tmp_path, "key"), here), there


def test_one_that_does_not_accept_is_given_up(ends: tuple[Link, socket.socket]):
    link, _ = ends
    with pytest.raises(Hung):
        link.messages.read(1)
    assert link._silent == START + 1


def test_silence_counts_once_something_is_awaited(ends: tuple[Link, socket.socket]):
    link, _ = ends
    link._patience, looks = PATIENCE, iter([False] * 1000 + [True])
    link.is_awaited = lambda: next(looks)  # it is not asked again: the question that it sends is awaited
    with pytest.raises(Hung):
        link.messages.read(1)
    assert next(looks, None) is None and link._silent == PATIENCE + 1


def test_a_sign_of_life_begins_the_count_anew(ends: tuple[Link, socket.socket]):
    link, there = ends
    link._patience, asked = 1, list[int]()

    def is_awaited() -> bool:
        asked.append(1)
        there.send(b".")  # the daemon answers each question
        return True

    link.is_awaited = is_awaited
    assert [link.messages.read(1) for _ in range(5)] == [b"."] * 5 and len(asked) == 5
    there.close()
    assert link.messages.read(1) == b""
