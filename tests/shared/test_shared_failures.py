"""A server that dies, hangs, is full or refuses: blocks are missing, the user is told once, and nothing raises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kv_store.shared.shelf import LARGEST
from kv_store.shared.valkey_shelf import ValkeyShelf
from kv_store.store import Store
from tests.shared.servers import PASSWORD, Redis, redis
from tests.shared.stores import BLOCK_BYTES, colleague, names_of, read, save
from tests.unit.shared_shelves import KEY
from tests.waiting import HANG, eventually

LEAST_MEMORY = 3 << 20  # bytes that such a server takes with its connections, and some
MEMORY = ("--maxmemory", str(LEAST_MEMORY), "--maxmemory-policy")
MANY = 2 * LEAST_MEMORY // BLOCK_BYTES


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY, "utf-8")
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    with redis(tmp_path) as server:
        yield server


def test_a_server_that_is_killed_is_told_of_once_and_found_again(server: Redis, key_file: Path) -> None:
    said = list[str]()
    opened = colleague(server.url, key_file, said)
    save(opened.store, 1, 3)
    server.kill()
    other = colleague(server.url, key_file, said_by_other := list[str]())
    for _ in range(3):
        save(opened.store, 2, 3)
        assert read(opened.store, 2, 3) == read(other.store, 1, 3) == 0
    assert len(said) == len(said_by_other) == 1 and "cannot be reached" in said[0]
    assert opened.store.stats()[0].written == 3
    server.start()
    eventually(lambda: saved_again(opened.store), "the server is not found again")
    eventually(lambda: read(other.store, 3, 3) == 3, "the server is not found again")
    assert opened.store.close(HANG) and other.store.close(HANG)


def saved_again(store: Store) -> bool:
    save(store, 3, 3)
    return store.stats()[0].written == 6


def test_a_server_that_restarts_between_two_questions_is_not_missed(server: Redis) -> None:
    shelf = ValkeyShelf(server.url, "team", LARGEST)
    assert shelf.put_many({"a": b"1"}) == 1
    server.kill()
    server.start()
    assert shelf.put_many({"b": b"2"}) == 1 and shelf.get_many(["a", "b"]) == [None, b"2"]
    shelf.close()


def test_a_server_that_hangs_holds_nobody_up(server: Redis, key_file: Path) -> None:
    said = list[str]()
    opened = colleague(server.url, key_file, said, patience=0.05)
    save(opened.store, 1, 3)
    other = colleague(server.url, key_file, patience=0.05)
    server.hang()
    assert read(other.store, 1, 3) == 0
    save(opened.store, 2, 3)
    assert len(said) == 1 and "does not answer" in said[0]
    names = names_of(other.store, 1, 3)
    eventually(lambda: other.store.stats()[0].read == 0 and other.store.lookup(names) == 0, "it does not rest")
    server.go_on()
    eventually(lambda: read(other.store, 1, 3) == 3, "the server is not found again")
    assert opened.store.close(HANG) and other.store.close(HANG)


def test_a_full_server_is_told_of_and_read(tmp_path: Path, key_file: Path) -> None:
    with redis(tmp_path, *MEMORY, "noeviction") as server:
        said = list[str]()
        opened = colleague(server.url, key_file, said)
        save(opened.store, 1, 3)
        for chain in range(2, 2 + MANY // 100):
            save(opened.store, chain, 100)
        assert len(said) == 1 and "maxmemory" in said[0]
        assert read(colleague(server.url, key_file).store, 1, 3) == 3
        assert opened.store.close(HANG)


def test_a_server_that_evicts_takes_what_comes(tmp_path: Path, key_file: Path) -> None:
    with redis(tmp_path, *MEMORY, "allkeys-lru") as server:
        said = list[str]()
        opened = colleague(server.url, key_file, said)
        for chain in range(1, 1 + MANY // 100):
            save(opened.store, chain, 100)
        assert opened.store.stats()[0].written == MANY // 100 * 100 and said == []
        other = colleague(server.url, key_file)
        assert sum(read(other.store, chain, 100) for chain in range(1, 1 + MANY // 100)) < MANY
        save(opened.store, 1000, 3)
        assert read(other.store, 1000, 3) == 3 and other.store.stats()[0].damaged == 0
        assert opened.store.close(HANG) and other.store.close(HANG)


def test_a_refused_password_is_told_without_it(server: Redis, key_file: Path) -> None:
    said = list[str]()
    opened = colleague(server.url.replace(PASSWORD, "another-password"), key_file, said)
    save(opened.store, 1, 3)
    assert len(said) == 1 and "refuses the user or the password" in said[0] and "another" not in said[0]
    assert read(opened.store, 1, 3) == 0
    assert opened.store.close(HANG)


def test_an_address_without_a_server_is_no_error(
    key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "any")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for url in ("s3://bucket", "redis://127.0.0.1:1", (tmp_path / "file" / "folder").as_uri()):
        said = list[str]()
        opened = colleague(url, key_file, said, patience=0.5)
        for _ in range(3):
            assert not opened.levels or read(opened.store, 1, 3) == 0
        eventually(lambda: len(said) == 1, "it is not told")  # noqa: B023
        assert opened.store.close(HANG)


def test_a_replica_is_left_alone(tmp_path: Path, key_file: Path) -> None:
    with redis(tmp_path, "--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "yes") as replica:
        said = list[str]()
        opened = colleague(replica.url, key_file, said)
        for _ in range(3):
            save(opened.store, 1, 3)
            assert read(opened.store, 1, 3) == 0
        assert len(said) == 1 and "replica" in said[0]
        assert opened.store.close(HANG)
