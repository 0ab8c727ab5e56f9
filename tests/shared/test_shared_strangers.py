"""What somebody without the team's key puts where the values lie: it is no value, and nothing else is touched."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import valkey

from kv_store.shared.folder_shelf import FolderShelf
from kv_store.shared.shelf import KEEP_SECONDS, ShelfError
from kv_store.shared.valkey_shelf import ValkeyShelf
from tests.shared.servers import redis

TEAM, LARGEST = "efim:00112233aabbccdd", 1000
OURS, THEIRS, MISSING = "a" * 32, "b" * 32, "c" * 32
VALUE = b"1" * 100


def link_to_a_file(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "thesis.txt")


def link_to_a_folder(place: Path, outside: Path) -> None:
    place.symlink_to(outside)


def dangling_link(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "nothing")


def pipe(place: Path, _: Path) -> None:
    os.mkfifo(place)


def unix_socket(place: Path, _: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place.parent)  # the name of a socket is short
        socket.socket(socket.AF_UNIX).bind(place.name)


def folder(place: Path, _: Path) -> None:
    place.mkdir()
    (place / THEIRS).write_bytes(VALUE)


KINDS = (link_to_a_file, link_to_a_folder, dangling_link, pipe, unix_socket, folder)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    for name in ("thesis.txt", THEIRS):
        (made / name).write_text("the only copy")
        os.utime(made / name, (0, 0))
    return made


@pytest.fixture
def shelf(tmp_path: Path) -> FolderShelf:
    made = FolderShelf((tmp_path / "shared").as_uri(), TEAM, 10 * len(VALUE), LARGEST)
    assert made.put_many({OURS: VALUE}) == 1
    return made


@pytest.mark.parametrize("name", [THEIRS, "link", "notes.txt", THEIRS.upper()])
@pytest.mark.parametrize("put", KINDS)
def test_nothing_outside_the_folder_is_listed_read_or_removed(
    shelf: FolderShelf, tmp_path: Path, outside: Path, put: Callable[[Path, Path], None], name: str
) -> None:
    place = tmp_path / "shared" / TEAM.replace(":", "/") / name
    put(place, outside)
    assert [item.name for item in shelf.scan()] == [OURS]
    assert shelf.get_many([OURS, name]) == [VALUE, None] and shelf.exists([OURS, name]) == [True, False]
    shelf.sweep()
    assert os.path.lexists(place)
    assert shelf.put_many({THEIRS: VALUE}) == (0 if put is folder and name == THEIRS else 1)
    shelf.delete([name])
    assert sorted(each.name for each in outside.iterdir()) == sorted(["thesis.txt", THEIRS])
    assert all(each.read_text() == "the only copy" for each in outside.iterdir())


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", THEIRS.upper(), f"{THEIRS}0", THEIRS[:-1]])
def test_files_with_other_names_are_let_alone(shelf: FolderShelf, tmp_path: Path, name: str) -> None:
    place = tmp_path / "shared" / TEAM.replace(":", "/") / name
    place.write_bytes(b"2" * 10_000)
    os.utime(place, (0, 0))
    shelf.sweep()
    assert place.exists() and [item.name for item in shelf.scan()] == [OURS]


@pytest.mark.parametrize("part", ["efim", TEAM.replace(":", "/")])
def test_a_link_in_place_of_the_teams_folder_is_not_followed(tmp_path: Path, outside: Path, part: str) -> None:
    place = tmp_path / "shared" / part
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    shelf = FolderShelf((tmp_path / "shared").as_uri(), TEAM, 0, LARGEST)
    for asked in (shelf.scan, shelf.sweep, lambda: shelf.put_many({OURS: VALUE}), lambda: shelf.get_many([THEIRS])):
        with pytest.raises(ShelfError):
            asked()
    assert len(list(outside.iterdir())) == 2


def test_a_value_of_any_size_is_read_as_none(shelf: FolderShelf, tmp_path: Path) -> None:
    place = tmp_path / "shared" / TEAM.replace(":", "/") / OURS
    with place.open("wb") as file:
        file.truncate(1 << 40)
    assert shelf.get_many([OURS]) == [b""]
    assert shelf.put_many({OURS: VALUE}) == 1 and shelf.get_many([OURS]) == [VALUE]


def test_on_a_server_values_of_other_types_and_sizes_are_written_over(tmp_path: Path) -> None:
    with redis(tmp_path) as server:
        shelf, client = ValkeyShelf(server.url, TEAM, LARGEST), valkey.Valkey.from_url(server.url)
        strange = {
            "list": lambda key: client.rpush(key, "x"),
            "hash": lambda key: client.hset(key, "x", "y"),
            "stream": lambda key: client.xadd(key, {"x": "y"}),
            "large": lambda key: client.set(key, b"x" * (LARGEST + 1)),
            "empty": lambda key: client.set(key, b""),
        }
        for number, put in enumerate(strange.values()):
            shelf.put_many({OURS: VALUE})
            name = f"{number:032x}"
            put(f"{TEAM}:{name}")
            assert shelf.get_many([OURS, name, MISSING]) == [VALUE, b"", None]
            assert shelf.exists([OURS, name, MISSING]) == [True, False, False]
            assert {item.name for item in shelf.scan()} == {OURS, *(f"{each:032x}" for each in range(number + 1))}
            assert shelf.put_many({name: VALUE}) == 1 and shelf.get_many([name]) == [VALUE]
        client.set(f"{TEAM}:\udcff".encode("utf-8", "surrogateescape"), "x")
        assert len(list(shelf.scan())) == 1 + len(strange)
        assert client.ttl(f"{TEAM}:{OURS}") > KEEP_SECONDS - 1000  # type: ignore[operator]
        shelf.close()
