"""A server of HTTP whose model does what a document says, as that of `tests/lsp/stand_in.py` does."""

from __future__ import annotations

import sys

from efim_ls.http import body, connection
from efim_ls.http.server import serve
from efim_ls.session.loader import Progress, nothing_to_fetch
from efim_ls.settings import Settings
from tests.lsp.stand_in import StandIn


class DescribedStandIn(StandIn):
    def describe(self) -> dict[str, object]:
        return super().describe() | {"context": 2048, "parameters": 1000, "device": "cpu"}


def load(settings: Settings, progress: Progress) -> DescribedStandIn:
    progress("half way", 50)
    return DescribedStandIn(settings)


if __name__ == "__main__":
    connection.HEADER_SECONDS = body.BODY_SECONDS = float(sys.argv[2]) if sys.argv[2:] else connection.HEADER_SECONDS
    sys.exit(serve(sys.argv[1] if sys.argv[1:] else "127.0.0.1", 0, "", load, nothing_to_fetch))
