"""`efim-ls status` and `efim-ls stop`: the processes that a user's editors share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import time
from typing import Any, TypedDict

from efim_ls.commands.arguments import counted, model_name
from efim_ls.daemon.address import Address, NoDaemon
from efim_ls.failures import Failure

HANG = 20.0  # seconds after which a daemon that does not answer is named


class DaemonStatus(TypedDict):
    """What a daemon says of itself; `since` are seconds since the epoch."""

    version: str
    pid: int
    since: float
    mib: int
    clients: list[dict[str, Any]]
    models: list[dict[str, Any]]


def show(as_json: bool) -> int:
    """Print what each daemon serves, as text or as a JSON object a line."""
    found = [status for status in _ask_all("status") if status]
    for status in found:
        print(json.dumps(status) if as_json else _described(status))
    if not (found or as_json):
        print("no server is running: an editor starts one when it needs it")
    return 0


def stop(are_all: bool) -> int:
    """End the daemons of this installation and cache folder, or all of the user's, and wait until they are gone."""
    count = len(list(_ask_all("stop", all=are_all)))
    print(f"ended {counted(count, 'server')}" if count else "no server is running")
    return 0


def _ask_all(want: str, **more: object) -> Iterator[DaemonStatus]:
    """Ask each daemon that is there; yield its answers once it has closed the connection."""
    try:
        here = Address.here()
        for address in (here, *here.others()):
            if answer := address.ask(want, HANG, **more):  # empty from a process that was not meant
                yield json.loads(answer)
    except TimeoutError as error:
        raise Failure(f"a server does not answer within {HANG:.0f} s: end its process if it hangs") from error
    except (NoDaemon, OSError, ValueError) as error:
        raise Failure(f"the server cannot be asked ({error}): try again") from error


def _described(status: DaemonStatus) -> str:
    minutes = counted(round((time() - status["since"]) / 60), "minute")
    lines = [f"efim-ls {status['version']}, process {status['pid']}, {status['mib']} MiB, for {minutes}"]
    lines += [f"  {model_name(each['model'])}: {counted(each['clients'], 'client')}" for each in status["models"]]
    lines += [f"  {each['name']}: {counted(each['documents'], 'open document')}" for each in status["clients"]]
    return "\n".join(lines)
