"""What nobody uses goes after a while, and what is used stays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import valkey

from kv_store.shared import shelf
from kv_store.shared.folder_shelf import FolderShelf
from kv_store.shared.shelf import KEEP_SECONDS, LARGEST
from kv_store.shared.valkey_shelf import ValkeyShelf
from tests.shared.servers import redis

TEAM = "efim:00112233aabbccdd"
A, B, C = ("a" * 32, "b" * 32, "c" * 32)
VALUES = {A: b"1" * 100, B: b"2" * 100, C: b"3" * 100}
DAY = 24 * 3600


def test_a_server_keeps_what_was_used(tmp_path: Path) -> None:
    with redis(tmp_path) as server:
        shelf, client = ValkeyShelf(server.url, TEAM, LARGEST), valkey.Valkey.from_url(server.url)

        def kept() -> list[object]:
            return [client.ttl(f"{TEAM}:{name}") for name in VALUES]

        shelf.put_many(VALUES)
        assert min(kept()) > KEEP_SECONDS - DAY  # type: ignore[type-var]
        for name in VALUES:
            client.expire(f"{TEAM}:{name}", DAY)
        assert shelf.get_many([A]) == [VALUES[A]] and shelf.exists([B]) == [True]
        assert [each > DAY for each in kept()] == [True, True, False]  # type: ignore[operator]
        shelf.close()


class Folder:
    """A shelf in a folder whose values have the ages that a test gives them."""

    def __init__(self, path: Path, most_bytes: int | None = None) -> None:
        self.shelf, self._path = FolderShelf(path.as_uri(), TEAM, most_bytes, LARGEST), path / TEAM.replace(":", "/")
        self.shelf.put_many(VALUES)

    def let_age(self, ages: Sequence[float]) -> None:
        for name, age in zip(VALUES, ages, strict=True):
            written = (self._path / name).stat().st_mtime
            os.utime(self._path / name, (written - age, written - age))

    def names(self) -> set[str]:
        return {item.name for item in self.shelf.scan()}


def test_old_values_are_swept(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.let_age([KEEP_SECONDS + DAY, KEEP_SECONDS - DAY, 0])
    folder.shelf.sweep()
    assert folder.names() == {B, C}


def test_the_oldest_values_are_swept_beyond_the_most_bytes(tmp_path: Path) -> None:
    folder = Folder(tmp_path, most_bytes=250)
    folder.let_age([20, 60, 0])
    folder.shelf.sweep()
    assert folder.names() == {A, C}


def test_it_is_swept_once_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    folder.shelf.sweep()
    folder.let_age([KEEP_SECONDS + DAY] * 3)
    folder.shelf.sweep()
    assert len(folder.names()) == 3
    monkeypatch.setattr(shelf, "SWEEP_SECONDS", 0)
    folder.shelf.sweep()
    assert not folder.names()


def test_what_is_used_is_written_again_before_it_is_too_old(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.let_age([KEEP_SECONDS - DAY, KEEP_SECONDS - DAY, DAY])
    assert folder.shelf.exists(list(VALUES)) == [False, False, True]
    assert folder.shelf.get_many([A]) == [VALUES[A]]
    assert folder.shelf.exists(list(VALUES)) == [True, False, True]


def test_another_teams_values_are_not_swept(tmp_path: Path) -> None:
    folder, other = Folder(tmp_path), FolderShelf(tmp_path.as_uri(), "efim:ffff", None, LARGEST)
    other.put_many({A: b"theirs"})
    path = tmp_path / "efim" / "ffff" / A
    os.utime(path, (0, 0))
    folder.shelf.sweep()
    assert path.exists()
    other.sweep()
    assert not path.exists()
