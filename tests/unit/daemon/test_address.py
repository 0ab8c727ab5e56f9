"""Where daemons listen: a folder that only the user can enter, one listener, locks that end."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from efim_ls.daemon import address
from efim_ls.daemon.address import Address, NoDaemon, is_upgrade, runtime_folder, shares_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    return tmp_path / "efim-ls"


def test_the_folder_is_made_for_the_user_alone(folder: Path):
    assert runtime_folder() == folder and folder.stat().st_mode & 0o777 == 0o700
    assert runtime_folder() == folder


def test_a_folder_that_others_can_enter_is_not_used(folder: Path):
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with pytest.raises(NoDaemon, match=f"other users can enter {folder}: remove it"):
        runtime_folder()


def test_a_link_is_not_used(folder: Path, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoDaemon, match="other users can enter"):
        runtime_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give folders away")
def test_a_folder_of_another_user_is_not_used(folder: Path):
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    with pytest.raises(NoDaemon, match="other users can enter"):
        runtime_folder()


def test_a_path_too_long_for_a_socket_gives_way_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 120)))
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert runtime_folder().name == f"efim-ls-{os.getuid()}"


def test_a_socket_is_the_users_alone_and_takes_the_place_of_a_dead_one(folder: Path):
    here = Address(runtime_folder(), "key")
    assert here.connect() is None
    here.listen().close()
    assert here.socket.exists() and here.connect() is None, "what a dead daemon left"
    with here.listen() as listener:
        assert here.socket.stat().st_mode & 0o777 == 0o600
        with here.connect() or pytest.fail("nobody listens") as connection:
            assert listener.accept()[0].fileno() != connection.fileno()


def test_a_lock_that_another_process_keeps_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(address, "LOOK", 0)
    here = Address(runtime_folder(), "key")
    with here.locked():
        pass
    with open(folder / "lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(NoDaemon, match="another process holds"), here.locked(patience=0.01):
            pytest.fail("two have the lock")


def test_keys_differ_by_what_a_server_is_told(monkeypatch: pytest.MonkeyPatch, folder: Path):
    before = Address.here()
    assert Address.here().socket == before.socket
    monkeypatch.setenv("HF_HOME", "/models")
    assert Address.here().socket != before.socket
    assert list(before.others()) == [], "nobody listens there"


@pytest.mark.parametrize("name", ["PYTHONSAFEPATH", "PYTHONUTF8", "PYTHONUNBUFFERED", "HOMEBREW_PREFIX", "TERM"])
def test_keys_are_the_same_whatever_else_an_editor_sets(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path):
    before = Address.here()
    monkeypatch.setenv(name, "1")
    assert Address.here().key == before.key


def test_a_socket_is_left_by_its_own_daemon_alone(folder: Path):
    here = Address(runtime_folder(), "key")
    with here.listen():
        first = here.inode()
        here.socket.rename(folder / "kept")  # so that the next one has another inode
        with here.listen():
            here.leave(first)
            assert here.connect() is not None, "another daemon has taken its place"
            here.log.touch()
            here.leave(here.inode())
            assert not here.socket.exists() and not here.log.exists()
    here.leave(here.inode())


@pytest.mark.parametrize(
    ("new", "upgraded"),
    [("p\nroot\n2\nA=1", True), ("p\nroot\n1\nA=1", False), ("p\nother\n2\nA=1", False), ("p\nroot\n2\nA=2", False)],
)
def test_an_upgrade_is_the_same_installation_with_other_files(new: str, upgraded: bool):
    assert is_upgrade("p\nroot\n1\nA=1", new) == upgraded


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        ("p\nroot\n1\nHOME=/u", True),
        ("q\nroot\n2\nHF_HOME=/m\nHOME=/u", True),
        ("p\nroot\n1\nHOME=/u\nXDG_CACHE_HOME=/c", False),
        ("p\nroot\n1\nHOME=/v", False),
        ("p\nother\n1\nHOME=/u", False),
        ("", False),
    ],
)
def test_a_cache_is_shared_by_the_versions_of_one_installation(other: str, shared: bool):
    assert shares_cache("p\nroot\n1\nHOME=/u", other) == shared
