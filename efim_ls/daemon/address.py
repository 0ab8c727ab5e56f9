"""Where the daemon of this installation listens, and how a client reaches it or starts it. POSIX only.

FOLDER/NAME.sock   the daemon's socket, in a folder that only the user can enter
FOLDER/NAME.log    what the daemon says if it cannot run, without what users type
FOLDER/lock        held for moments, by whoever connects, starts a daemon or ends one

A client that finds nobody listening makes the socket itself and lets the daemon inherit it: so it is connected before
the daemon runs, and never has to ask whether it does. Imports little, because relays are small processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

PACKAGES = ("efim_ls", "model_runtime", "kv_store")
# Environment variables that a server reads: clients that differ in one have separate daemons.
# Settings of Python that only say how it starts are not among them: some editors give them.
PREFIXES, NAMES = ("HF_", "HUGGING", "CUDA_", "OMP_", "LD_"), ("PYTHONPATH", "PYTHONHOME", "XDG_CACHE_HOME", "HOME")
KEY = "EFIM_DAEMON_KEY"  # in a daemon's environment, which other users cannot read as they can its arguments
LONGEST_PATH = 100  # bytes of a socket's path: macOS allows 103, Linux 107
WAITING = 128  # connections that may wait to be accepted
ROOT, NEWEST = 1, 2  # the lines of a key that tell where the installation's files are, and when they last changed
LONGEST_LOG = 1 << 16  # bytes, from which a new log replaces the old one when a daemon starts
LOCKED, LOOK = 5.0, 0.005  # seconds that another process may hold the lock, and between looks at it
CREDENTIALS = struct.Struct("3i")  # of a peer on Linux: process, user, group


class NoDaemon(Exception):
    """No daemon can be reached or started; the message says why."""


class Address:
    """The place of one daemon: of this user, this installation and its files as they are now, this environment."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        name = f"{crc32(key.encode()):08x}"
        self.socket, self.log, self._lock = folder / f"{name}.sock", folder / f"{name}.log", folder / "lock"

    @classmethod
    def here(cls) -> Address:
        """Return the address for this process; raises NoDaemon if there is no folder that is safe to use."""
        return cls(runtime_folder(), _key())

    def connect(self) -> socket.socket | None:
        """Connect to the daemon; return None if nobody listens."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(os.fspath(self.socket))
            check_peer(connection)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection

    def handshake(self, want: str, **more: object) -> bytes:
        """Return the line with which a connection to the daemon begins."""
        return json.dumps({"key": self.key, "want": want, **more}).encode() + b"\n"

    def ask(self, want: str, seconds: float, **more: object) -> bytes | None:
        """Return the daemon's answer, up to the end of the connection; None if nobody listens.

        Raises TimeoutError if it says nothing for `seconds`.
        """
        if (connection := self.connect()) is None:
            return None
        with connection:
            connection.settimeout(seconds)
            connection.sendall(self.handshake(want, **more))
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))

    def join(self) -> socket.socket:
        """Connect to the daemon, and start it if nobody listens; raises NoDaemon."""
        try:
            with self.locked():
                if (connection := self.connect()) is not None:
                    return connection
                with self.listen() as listener:
                    self._spawn(listener.fileno())
                if (connection := self.connect()) is not None:
                    return connection
        except OSError as error:
            raise NoDaemon(f"no socket can be used in {self.folder} ({error.strerror or error})") from error
        raise NoDaemon(f"the daemon ended at once: {self.log} may say why")

    def listen(self) -> socket.socket:
        """Return a new socket at this address, in place of a dead daemon's; to be called while locked."""
        with suppress(FileNotFoundError):
            self.socket.unlink()
        listener, before = socket.socket(socket.AF_UNIX), os.umask(0o177)
        try:
            listener.bind(os.fspath(self.socket))
            listener.listen(WAITING)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        return listener

    def inode(self) -> int:
        """Return which socket is at this address, 0 if there is none."""
        try:
            return self.socket.lstat().st_ino
        except OSError:
            return 0

    def leave(self, inode: int) -> None:
        """Remove a socket and its log, unless another has taken its place; to be called while locked."""
        if inode and inode == self.inode():
            self.socket.unlink()
            self.log.unlink(missing_ok=True)

    @contextmanager
    def locked(self, patience: float = LOCKED) -> Generator[None]:
        """Keep others from connecting, starting a daemon or ending one; raises NoDaemon if one of them goes on.

        Wait for that for `patience` seconds.
        """
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(lock, patience, f"another process holds {self._lock}")
            yield
        finally:
            os.close(lock)

    def others(self) -> Iterator[Address]:
        """Yield the places of the user's other daemons, which may be dead; they are asked with this one's key."""
        for path in sorted(self.folder.glob("*.sock")):
            if path != self.socket:
                other = Address(self.folder, self.key)
                other.socket, other.log = path, path.with_suffix(".log")
                yield other

    def _spawn(self, listener: int) -> None:
        """Start a daemon that takes over a listening socket and outlives this process; it is no child of it."""
        os.set_inheritable(listener, True)
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if os.fstat(log).st_size > LONGEST_LOG:  # until then, what a daemon said before it died is kept
                os.ftruncate(log, 0)
        except OSError:  # a full disk: the daemon runs without
            log = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            command = [sys.executable, "-m", "efim_ls.daemon", str(listener)]
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ]
            environment = {**os.environ, **python_path(), KEY: self.key}
            starter = os.posix_spawn(sys.executable, command, environment, file_actions=actions)
        finally:
            os.close(log)
        os.waitpid(starter, 0)  # it forks at once, before it imports anything that takes time


def runtime_folder() -> Path:
    """Return the folder of the user's sockets, which nobody else can enter; raises NoDaemon."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [Path(given, "efim-ls")] if os.path.isabs(given) else []
    places.append(Path(os.environ.get("TMPDIR") or "/tmp", f"efim-ls-{os.getuid()}"))
    why = ""
    for place in places:
        if len(os.fsencode(place)) + len("/00000000.sock") > LONGEST_PATH:
            why = why or f"the path of {place} is too long for a socket"
            continue
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
        except OSError as error:
            why = why or f"{place} cannot be used ({error.strerror})"
            continue
        if place.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
            why = why or f"other users can enter {place}: remove it"
            continue
        return place
    raise NoDaemon(why)


def check_peer(connection: socket.socket) -> None:
    """Raise NoDaemon if the other end of a connection belongs to another user, where the system tells that."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        if CREDENTIALS.unpack(credentials)[1] != os.getuid():
            raise NoDaemon("the process at the socket belongs to another user")


def python_path() -> dict[str, str]:
    """Return the environment with which another Python finds this installation, wherever it runs.

    A folder of installed packages is found anyway, and in PYTHONPATH would come before the standard library.
    """
    root = Path(__file__).parents[2]
    folders = ("" if root.name.endswith("-packages") else os.fspath(root), os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(filter(None, folders)), "PYTHONSAFEPATH": "1"}


def _take(lock: int, patience: float, wrong: str) -> None:
    end = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise NoDaemon(wrong) from None
            time.sleep(LOOK)


def _key() -> str:
    """Return what the clients of one daemon have in common; another installation of the same version differs."""
    root = Path(__file__).parents[2]
    newest = max(_newest(os.path.join(root, package)) for package in PACKAGES)
    variables = [
        f"{name}={os.environ[name]}" for name in sorted(os.environ) if name in NAMES or name.startswith(PREFIXES)
    ]
    return "\n".join((sys.executable, os.fspath(root), str(newest), *variables))


def is_upgrade(old: str, new: str) -> bool:
    """Return whether two keys are of one installation, before and after its files were replaced."""
    before, after = old.split("\n"), new.split("\n")
    return before != after and before[:NEWEST] + before[NEWEST + 1 :] == after[:NEWEST] + after[NEWEST + 1 :]


def shares_cache(one: str, other: str) -> bool:
    """Return whether two keys are of one installation, whatever its Python and version, with one cache folder."""
    mine, others = one.split("\n"), other.split("\n")
    return mine[ROOT:NEWEST] == others[ROOT:NEWEST] and _cache_home(mine) == _cache_home(others)


def _cache_home(lines: list[str]) -> str:
    """Return what says where the cache is, of the lines of a key."""
    environment = {name: value for name, _, value in (line.partition("=") for line in lines)}
    return environment.get("XDG_CACHE_HOME") or environment.get("HOME", "")


def _newest(folder: str) -> int:
    """Return when the code below a folder was last changed (ns)."""
    newest = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                newest = max(newest, _newest(entry.path)) if entry.name != "__pycache__" else newest
            elif entry.name.endswith((".py", ".so")):
                newest = max(newest, entry.stat().st_mtime_ns)
    return newest
