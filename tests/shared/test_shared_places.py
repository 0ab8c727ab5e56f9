"""What a colleague has computed is read by the others, wherever the team keeps it, and by nobody else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kv_store.shared.opening import open_shelf
from kv_store.tier import Origin, Reach
from tests.shared.servers import redis, s3
from tests.shared.stores import BLOCK_BYTES, DOCUMENT, colleague, names_of, read, save
from tests.waiting import HANG

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["valkey", "s3", "folder"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("place with a space")
    match request.param:
        case "valkey":
            with redis(folder) as server:
                yield server.url
        case "s3":
            with pytest.MonkeyPatch.context() as patch, s3(patch.setenv) as address:
                yield address
        case _:
            yield folder.as_uri()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return write_key(tmp_path / "key")


def write_key(path: Path) -> Path:
    path.write_text(f"{path}".rjust(64, "k"), "utf-8")  # each test is a team of its own
    return path


def test_another_process_reads_what_one_wrote(url: str, key_file: Path) -> None:
    subprocess.run((sys.executable, "-m", "tests.shared.stores", url, key_file), cwd=ROOT, check=True, timeout=HANG)
    said = list[str]()
    opened = colleague(url, key_file, said)
    assert read(opened.store, 1, 25) == 20 and read(opened.store, 2, 5) == 0
    save(opened.store, 1, 25)
    [stats] = opened.store.stats()
    assert (stats.read, stats.written, stats.damaged, said) == (20, 5, 0, [])
    assert opened.store.close(HANG)


@pytest.mark.parametrize("encrypt", [False, True])
def test_names_and_tags_stay_with_the_team(url: str, key_file: Path, encrypt: bool) -> None:
    opened = colleague(url, key_file, encrypt=encrypt, salt="2026")
    save(opened.store, 1, 3)
    shelf, _ = open_shelf({"url": url, "key_file": str(key_file), "salt": "2026"})
    found = [item.name for item in shelf.scan()]
    values = shelf.get_many(found)
    raw = b"".join(value for value in values if value)
    names = names_of(opened.store, 1, 3)
    assert len(found) == 3 and len(raw) > 3 * BLOCK_BYTES
    for secret in (*names, DOCUMENT.to_bytes(8, "little"), b"secret-project", b"a model of tests"):
        assert secret not in raw and not any(secret.hex() in name for name in found)
    assert opened.store.close(HANG)


def test_another_team_sees_nothing(url: str, key_file: Path, tmp_path: Path) -> None:
    ours = colleague(url, key_file)
    save(ours.store, 1, 3)
    others = colleague(url, write_key(tmp_path / "another key"), patience=0.5)
    salted = colleague(url, key_file, salt="2026", patience=0.5)
    for other in (others, salted):
        assert read(other.store, 1, 3) == 0 and [each.damaged for each in other.store.stats()] == [0]
        assert other.store.close(HANG)
    shelf, _ = open_shelf({"url": url, "key_file": str(tmp_path / "another key")})
    assert list(shelf.scan()) == []
    assert read(ours.store, 1, 3) == 3
    assert ours.store.close(HANG)


def test_a_damaged_value_is_a_miss_and_written_again(url: str, key_file: Path) -> None:
    ours = colleague(url, key_file)
    save(ours.store, 1, 3)
    shelf, sealer = open_shelf({"url": url, "key_file": str(key_file)})
    second = sealer.name(names_of(ours.store, 1, 3)[1])
    [value] = shelf.get_many([second])
    assert value
    shelf.put_many({second: value[:-1]})
    said = list[str]()
    theirs = colleague(url, key_file, said)
    assert read(theirs.store, 1, 3) == 1
    save(theirs.store, 1, 3)
    [stats] = theirs.store.stats()
    assert (stats.damaged, stats.written, len(said)) == (1, 1, 1) and shelf.get_many([second])[0]
    assert theirs.store.close(HANG) and ours.store.close(HANG)


def test_a_document_that_became_private_is_removed(url: str, key_file: Path) -> None:
    opened = colleague(url, key_file)
    save(opened.store, 1, 3)
    shelf, _ = open_shelf({"url": url, "key_file": str(key_file)})
    assert len(list(shelf.scan())) == 3
    opened.store.withdraw(Origin(DOCUMENT, Reach.PROCESS))
    assert opened.store.flush(HANG) and list(shelf.scan()) == []
    assert opened.store.close(HANG)
