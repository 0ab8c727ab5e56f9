"""Formats of the weights that a user may ask the real server for."""

from __future__ import annotations

from tests.compiled import require_compiled
from tests.lsp.wire import ALONE, started

RING = 'def ring(radius, hole):\n    """The area of a ring."""\n    return circle(rad‸)\n'


async def test_weights_of_four_eight_and_sixteen_bits_complete():
    require_compiled()
    async with started(ALONE, settings={"weights": "int8"}) as editor:
        for form in ("int8", "fp16", "int4"):
            editor.tell("workspace/didChangeConfiguration", {"settings": {"weights": form}})
            await editor.loaded()
            text = await editor.open(RING).ghost()
            assert text is not None and text.startswith("ius")
            editor.close_pages()
            status = await editor.ask("efim/status")
            assert (status["state"], status["weights"]) == ("ready", form)
            assert status["decoder_reason"] == "asked for by the setting"
        assert editor.messages == []
