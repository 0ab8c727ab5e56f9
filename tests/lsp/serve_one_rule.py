"""The server with one rule for next edits and its real model, for tests of how editors show them."""

from __future__ import annotations

import sys

from efim_ls.lsp.server import serve
from tests.lsp.one_rule import use

if __name__ == "__main__":
    use()
    sys.exit(serve())
