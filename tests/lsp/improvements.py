"""The notifications of better suggestions that a server sends to a client that can be told."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.lsp.wire import GHOST_TEXT, Editor

CAN_BE_TOLD: dict[str, Any] = {**GHOST_TEXT, "experimental": {"efimImprovedSuggestions": True}}


def improvements(editor: Editor) -> asyncio.Queue[str]:
    """Keep the URIs of the documents for which the server tells from now on that a suggestion has improved."""
    told = asyncio.Queue[str]()

    @editor.client.feature("efim/didImproveSuggestion")
    def keep(params: Any) -> None:
        told.put_nowait(editor.client.protocol._converter.unstructure(params)["textDocument"]["uri"])

    return told
