"""The server with its real model, which waits for other files and other machines, however busy this one is."""

from __future__ import annotations

import sys

from efim_ls.lsp.server import serve
from efim_ls.session import workspace
from model_runtime.remote import connection, setting
from tests.waiting import HANG

if __name__ == "__main__":
    workspace.FINDING = setting.MOST_SECONDS = connection.SILENCE = HANG
    sys.exit(serve())
