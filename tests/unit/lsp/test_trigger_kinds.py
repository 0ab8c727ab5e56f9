"""What counts as asking by a key: LSP's number for it, and VS Code's own."""

from __future__ import annotations

import pytest
from lsprotocol import types

from efim_ls.lsp.protocol import converter

INVOKED, AUTOMATIC = types.InlineCompletionTriggerKind.Invoked, types.InlineCompletionTriggerKind.Automatic


@pytest.mark.parametrize(
    ("context", "kind"),
    [
        ({"triggerKind": 0}, INVOKED),
        ({"triggerKind": 1}, INVOKED),
        ({"triggerKind": 2}, AUTOMATIC),
        ({"triggerKind": 3}, AUTOMATIC),
        ({}, AUTOMATIC),
        (None, AUTOMATIC),
    ],
)
def test_a_request_is_by_a_key_if_its_trigger_kind_is_0_or_1(
    context: object, kind: types.InlineCompletionTriggerKind
) -> None:
    raw = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}, "context": context}
    assert converter().structure(raw, types.InlineCompletionParams).context.trigger_kind == kind
