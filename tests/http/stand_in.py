"""A server of HTTP whose model does what a document says, as that of `tests/lsp/stand_in.py` does.

python -m tests.http.stand_in [HOST [SECONDS [MODEL]]]    SECONDS that a request may take to arrive"""

from __future__ import annotations

import sys
from typing import Any

from efim_ls.failures import Failure
from efim_ls.http import body, server
from efim_ls.session.loader import Progress, nothing_to_fetch
from efim_ls.settings import Settings
from tests.lsp import stand_in


class DescribedStandIn(stand_in.StandIn):
    def describe(self) -> dict[str, object]:
        return super().describe() | {"context": 2048, "parameters": 1000, "device": "cpu"}


def load(settings: Settings, progress: Progress) -> Any:
    stand_in.load(settings, progress)
    return DescribedStandIn(settings)


def main(host: str = "127.0.0.1", seconds: str = "", model: str = "") -> int:
    if seconds:
        server.HEADER_SECONDS = body.BODY_SECONDS = float(seconds)
    try:
        return server.serve(host, 0, model, load, nothing_to_fetch)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
