"""The daemons that tests start, in a folder that is no user's."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.waiting import HANG

RUNTIME = TemporaryDirectory(prefix="efim-run-")
FOLDER = Path(RUNTIME.name, "efim-ls")


def isolate() -> None:
    """Let this process' children find the daemons of no other."""
    os.environ["XDG_RUNTIME_DIR"] = RUNTIME.name


def kill_all() -> None:
    """Kill the daemons that listen, as a crash would."""
    for path in FOLDER.glob("*.sock"):
        with socket.socket(socket.AF_UNIX) as connection, suppress(ConnectionRefusedError):
            connection.connect(str(path))
            connection.sendall(b'{"want": "status"}\n')
            os.kill(json.loads(connection.makefile("rb").read())["pid"], signal.SIGKILL)


def stop_all(folder: Path = FOLDER) -> None:
    """Stop the daemons of a folder, and wait until they are gone."""
    for path in folder.glob("*.sock"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(HANG)
            try:
                connection.connect(str(path))
                connection.sendall(b'{"want": "stop", "key": "", "all": true}\n')
                while connection.recv(1 << 16):
                    pass
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
                continue  # it has ended by itself
