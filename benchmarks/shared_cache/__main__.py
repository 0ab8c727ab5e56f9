"""Lets 31 clients and a typing client share a cache for ten minutes, while clients and its server are killed.

python -m benchmarks.shared_cache
python -m benchmarks.shared_cache --seconds 60

Each half minute something else happens to a real redis-server: it is killed and started again, it hangs, it is full
and takes no more, it is full and evicts. Every few seconds a client is killed and another comes. Meanwhile the demo's
session is typed with the shared cache and without it, in turns. Printed are blocks that were wrong or lost, the
memory of the client that lived longest, and the ratio of the 95th percentiles of a key's time.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import valkey

from benchmarks.keystrokes.round_trips import milliseconds
from benchmarks.table import show
from efim_lab.gate.replay.report import percentile
from tests.shared.servers import Redis, redis

CLIENTS = 31
EVENT, KILL = 30.0, 5.0  # seconds between what happens to the server, and between kills of clients
LASTING = 10.0  # seconds that what happens to the server takes
FULL, ROOMY = "24mb", "512mb"


class Mishaps:
    """What can happen to a server without a disk, each for some seconds."""

    def __init__(self, server: Redis) -> None:
        self._server = server

    def kill(self) -> None:
        """Kill it; it is started again with nothing."""
        self._server.kill()
        time.sleep(LASTING)
        self._server.start()

    def hang(self) -> None:
        """Let it answer nothing, with all connections open: data being written is cut."""
        self._server.hang()
        time.sleep(LASTING)
        self._server.go_on()

    def refuse(self) -> None:
        """Let it be full and take no more."""
        self._be_full("noeviction")

    def evict(self) -> None:
        """Let it be full and evict the blocks used least."""
        self._be_full("allkeys-lru")

    def _be_full(self, policy: str) -> None:
        with valkey.Valkey.from_url(self._server.url) as client:
            client.config_set("maxmemory-policy", policy)
            client.config_set("maxmemory", FULL)
            time.sleep(LASTING)
            client.config_set("maxmemory", ROOMY)


class Team:
    """The clients' processes: their last lines, and how many were wrong."""

    def __init__(self, url: str, key_file: Path) -> None:
        self._order = [sys.executable, "-m", "benchmarks.shared_cache.client", url, str(key_file)]
        self._processes = list[subprocess.Popen[str]]()
        self._number = self.killed = self.failed = self.read = self.saved = 0
        self.mib = list[float]()  # of the first client
        for _ in range(CLIENTS):
            self._add()

    def kill_one(self) -> None:
        """Kill any client except the first in the midst of its work, and start another."""
        process = self._processes.pop(random.randrange(1, len(self._processes)))
        self.failed += process.poll() is not None
        process.kill()
        self.killed += 1
        self._add()

    def close(self) -> None:
        """End all."""
        for process in self._processes:
            self.failed += process.poll() is not None
            process.kill()

    def _add(self) -> None:
        self._number += 1
        order = [*self._order, str(self._number)]
        process = subprocess.Popen(order, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
        self._processes.append(process)
        threading.Thread(target=self._listen, args=(process, self._number == 1), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str], is_first: bool) -> None:
        said: dict[str, Any] = {}
        for line in process.stdout or ():
            said = json.loads(line)
            if is_first:
                self.mib.append(said["mib"])
        self.read += said.get("read", 0)
        self.saved += said.get("saved", 0)


@contextmanager
def repeated(seconds: float, deed: Callable[[], None]) -> Iterator[None]:
    """Do something again and again on a thread, with pauses, as long as this lasts."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            deed()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main() -> None:
    """Print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, metavar="N", help="how long (default: 600)")
    seconds: float = parser.parse_args().seconds
    turns: dict[str, list[list[float]]] = {"without": [], "with": []}
    with TemporaryDirectory() as folder, redis(Path(folder), "--maxmemory", ROOMY) as server, ExitStack() as parts:
        key, mishaps = Path(folder) / "key", Mishaps(server)
        key.write_text(secrets.token_hex(32))
        team = Team(server.url, key)
        parts.callback(team.close)
        deeds = cycle([mishaps.kill, mishaps.hang, mishaps.refuse, mishaps.evict])
        parts.enter_context(repeated(EVENT, lambda: next(deeds)()))
        parts.enter_context(repeated(KILL, team.kill_one))
        end = time.monotonic() + seconds
        while time.monotonic() < end or not turns["with"]:
            turns["without"].append(milliseconds({}))
            turns["with"].append(milliseconds({"shared_tier": {"url": server.url, "key_file": str(key)}}))
    p95 = {name: median(percentile(turn, 95) for turn in found) for name, found in turns.items()}
    quarter = max(1, len(team.mib) // 4)
    figures = {
        "seconds": seconds,
        "clients": CLIENTS + 1,
        "clients_killed": team.killed,
        "clients_with_wrong_or_lost_blocks": team.failed,
        "blocks_read": team.read,
        "blocks_saved": team.saved,
        "mib_in_second_quarter": median(team.mib[quarter : 2 * quarter] or [0.0]),
        "mib_in_last_quarter": median(team.mib[-quarter:] or [0.0]),
        "turns": len(turns["with"]),
        "p95_ms_without": p95["without"],
        "p95_ms_with": p95["with"],
        "p95_with_to_without": p95["with"] / p95["without"],
    }
    show("a shared cache under load", ("figure", "value"), figures.items())
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
