"""Finds the servers with a model that run on this machine, by asking the ports that they have by default."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from threading import Event, Timer
from typing import NamedTuple

from model_runtime.cancel import Cancel, Cancelled
from model_runtime.checkpoint.hub_names import REPOSITORY_NAME
from model_runtime.errors import EngineError
from model_runtime.remote.connection import Connection
from model_runtime.remote.identify import LONGEST_NAME, OWNERS

PORTS = (8000, 8012, 8080)  # of vLLM, of llama.cpp for its editor plugins, and of llama.cpp otherwise
PATIENCE = 1.0  # seconds for all of them: nothing waits longer for a port that is taken by something else


class RunningServer(NamedTuple):
    """A server at a `url`, its `kind`, and the model that has its tokenizer: a file here, or a name on the hub."""

    kind: str
    url: str
    model: str


def running_servers() -> list[RunningServer]:
    """Return the servers on this machine whose model is here or known, by their ports."""
    expired = Event()
    timer = Timer(PATIENCE, expired.set)
    timer.start()
    try:
        with ThreadPoolExecutor(len(PORTS)) as threads:
            return [*chain(*threads.map(partial(_at, Cancel(expired.is_set)), PORTS))]
    finally:
        timer.cancel()


def _at(cancel: Cancel, port: int) -> list[RunningServer]:
    """Return the models of the server at a port; none if its kind is unknown, or if it is too slow."""
    host = f"127.0.0.1:{port}"
    connection = Connection(f"http://{host}", host)
    try:
        return [RunningServer(kind, f"http://{host}", model) for kind, model in _models(connection, cancel)]
    except (EngineError, Cancelled, KeyError, TypeError, AttributeError):
        return []
    finally:
        connection.close()


def _models(connection: Connection, cancel: Cancel) -> Iterator[tuple[str, str]]:
    """Yield the kind of a server and its model, where the model's tokenizer can be had."""
    for each in connection.ask("GET", "/v1/models", None, cancel)["data"]:
        kind, name = OWNERS.get(str(each.get("owned_by")), ""), str(each["id"])
        if kind == "llama.cpp":
            name = str(connection.ask("GET", "/props", None, cancel)["model_path"])
        is_here = os.path.isfile(name) or os.path.isfile(os.path.join(name, "config.json"))
        if kind and len(name) <= LONGEST_NAME and (is_here or REPOSITORY_NAME.fullmatch(name)):
            yield kind, name
