"""The paths of all dialects, and the errors that they have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from efim_ls.http.body import BodyReader, RequestFields
from efim_ls.http.completions import Completions
from efim_ls.http.guard import Guard, error_answer
from efim_ls.http.llama_cpp import LlamaCppDialect
from efim_ls.http.openai import OpenAiDialect
from efim_ls.http.tabby import TabbyDialect

MESSAGES = {
    404: "there is nothing at this path: this server completes code, at /infill, /completion and /v1/completions",
    405: "this path has another method: use POST for what has a body, else GET",
}

Handler = Callable[[RequestFields], Coroutine[Any, Any, Response]]


def build_app(completions: Completions, host: str, token: str) -> ASGIApp:
    """Return the application that answers on a host."""
    llama_cpp, openai, tabby = (LlamaCppDialect(completions), OpenAiDialect(completions), TabbyDialect(completions))
    reader = BodyReader()

    async def complete(fields: RequestFields) -> Response:
        dialect = tabby if fields.has("segments") else openai
        return await dialect.complete(fields)

    def post(path: str, handler: Handler) -> Route:
        async def read_and_handle(asking: Request) -> Response:
            return await _unless_gone(asking, handler(await reader.read(asking)))

        return Route(path, read_and_handle, methods=["POST"])

    routes = [
        post("/infill", llama_cpp.infill),
        post("/completion", llama_cpp.completion),
        Route("/health", llama_cpp.health),
        Route("/props", llama_cpp.properties),
        Route("/v1/models", openai.models),
        post("/v1/completions", complete),
        Route("/v1/health", tabby.health, methods=["GET", "POST"]),
        Route("/v1beta/server_setting", tabby.settings),
        post("/v1/events", tabby.event),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _failed})
    return Guard(app, host, token)


async def _refused(_: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, HTTPException)
    answer = error_answer(refusal.status_code, MESSAGES.get(refusal.status_code, refusal.detail))
    answer.headers["connection"] = "close"  # the rest of a body may still be on its way
    return answer


async def _failed(_: Request, failure: Exception) -> Response:
    return error_answer(500, f"the request failed by an error of the server ({type(failure).__name__}): see its log")


async def _unless_gone(asking: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Return what work returns; if the client goes before that, cancel it."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(asking))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else Response()  # which nobody reads
    finally:
        task.cancel()
        gone.cancel()


async def _gone(asking: Request) -> None:
    while (await asking.receive())["type"] != "http.disconnect":
        pass
