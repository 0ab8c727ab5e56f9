"""The dialect of Tabby's server, for its agents in many editors."""

from __future__ import annotations

import os
import platform
import uuid

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from efim_ls.http.body import RequestFields
from efim_ls.http.completions import Completions
from efim_ls.http.documents import CursorContext, Snippet
from efim_ls.version import installed_version

# Lists of text of other files, each with a path and a body.
SNIPPETS = ("declarations", "relevant_snippets_from_changed_files", "relevant_snippets_from_recently_opened_files")


class TabbyDialect:
    """Requests as Tabby's agents send them."""

    def __init__(self, completions: Completions) -> None:
        self._completions = completions

    async def health(self, _: Request) -> Response:
        """Answer what runs where."""
        version = f"efim-ls {installed_version('efim-ls') or ''}".strip()
        names = ("build_date", "build_timestamp", "git_sha", "git_describe")
        return JSONResponse(
            {
                "model": self._completions.name,
                "device": self._completions.description["device"],
                "arch": platform.machine(),
                "cpu_info": platform.processor() or platform.machine(),
                "cpu_count": os.cpu_count() or 1,
                "cuda_devices": [],
                "version": {**dict.fromkeys(names, ""), "git_describe": version},
            }
        )

    async def settings(self, _: Request) -> Response:
        """Ask agents to send no telemetry, which Tabby's own server leaves to its administrators."""
        return JSONResponse({"disable_client_side_telemetry": True})

    async def event(self, _: RequestFields) -> Response:
        """Accept the outcome of a completion; nothing is kept of it."""
        return Response(status_code=200)

    async def complete(self, fields: RequestFields) -> Response:
        """Complete at the cursor between two segments of a file."""
        segments = fields.object("segments")
        others = tuple(
            Snippet(each.text("filepath"), each.text("body")) for name in SNIPPETS for each in segments.objects(name)
        )
        language = fields.text("language").lower()
        context = CursorContext(
            segments.text("prefix"),
            segments.text("suffix"),
            segments.text("filepath"),
            language if language != "unknown" else "",
            others,
        )
        answer = await self._completions.complete(context)
        choices = [{"index": 0, "text": answer.text}] if answer.text else []
        return JSONResponse({"id": f"cmpl-{uuid.uuid4().hex}", "choices": choices})
