"""The dialect of OpenAI's completions (not chats), which many editors' plugins speak."""

from __future__ import annotations

import time
import uuid
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from efim_ls.http.body import RequestFields
from efim_ls.http.completions import Completions, around_cursor, events
from efim_ls.http.documents import CursorContext
from efim_ls.request import Costs

MOST_TOKENS = 16  # OpenAI's default
END = "[DONE]"


class OpenAiDialect:
    """Requests as OpenAI's clients send them."""

    def __init__(self, completions: Completions) -> None:
        self._completions = completions
        self._since = int(time.time())

    async def models(self, _: Request) -> Response:
        """Answer which model there is."""
        described = self._completions.description
        meta = {"n_params": described["parameters"], "n_ctx_train": described["context"]}
        model = {"id": self._completions.name, "object": "model", "created": self._since, "owned_by": "efim-ls"}
        return JSONResponse({"object": "list", "data": [model | {"meta": meta}]})

    async def complete(self, fields: RequestFields) -> Response:
        """Continue a prompt, before a suffix if there is one."""
        prompts = fields.texts("prompt")
        if len(prompts) != 1:
            raise HTTPException(400, "'prompt' is not one text: send each text in a separate request, not as tokens")
        suffix = fields.text("suffix")
        before, after = (prompts[0], suffix) if suffix else around_cursor(prompts[0])
        count, most = fields.whole("n", 1), fields.whole("max_tokens", MOST_TOKENS)
        answer = await self._completions.complete(CursorContext(before, after), count, explicit=True)
        cuts = [
            self._completions.cut(text, most, fields.texts("stop")) for text in (answer.text, *answer.alternatives)
        ]
        ends = {"limit": "length"}
        choices = [
            {"index": number, "text": cut.text, "logprobs": None, "finish_reason": ends.get(cut.reason, "stop")}
            for number, cut in enumerate(cuts[: max(1, count)])
        ]
        result = self._result(choices)
        if fields.flag("stream"):
            return events(self._chunks(result, fields, answer.costs), END)
        return JSONResponse(result | {"usage": _usage(answer.costs)})

    def _result(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self._completions.name,
            "choices": choices,
        }

    def _chunks(self, result: dict[str, Any], fields: RequestFields, costs: Costs) -> list[dict[str, Any]]:
        chunks = [result | {"choices": [choice]} for choice in result["choices"]]
        if fields.object("stream_options").flag("include_usage"):
            chunks.append(result | {"choices": [], "usage": _usage(costs)})
        return chunks


def _usage(costs: Costs) -> dict[str, Any]:
    prompt = costs.reused + costs.recomputed
    return {
        "prompt_tokens": prompt,
        "completion_tokens": costs.new_tokens,
        "total_tokens": prompt + costs.new_tokens,
        "prompt_tokens_details": {"cached_tokens": costs.reused},
    }
