"""`efim-ls serve --http`: completions for clients of other servers."""

from __future__ import annotations

from efim_ls.commands.arguments import check_model
from efim_ls.failures import Failure


def serve_http(host: str, port: int, model: str) -> int:
    """Serve over HTTP until a signal comes; raises Failure if that cannot be done."""
    check_model(model)
    try:
        from efim_ls.http.server import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("starlette", "uvicorn", "h11"):
            raise
        raise Failure("serving HTTP needs starlette and uvicorn: install efim-ls with its extra `http`") from None
    return serve(host, port, model)
