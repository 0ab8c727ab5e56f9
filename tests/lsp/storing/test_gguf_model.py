"""A GGUF file as the model of a real server: it completes, and one that cannot be read leaves the embedded model."""

from __future__ import annotations

from pathlib import Path

from model_runtime.checkpoint.embedded import EMBEDDED
from tests.compiled import require_compiled
from tests.engine.gguf_files import write
from tests.lsp.storing.test_hub_model import complete
from tests.lsp.wire import ALONE, started
from tests.models import Tiny, make


async def test_a_file_completes_and_a_damaged_one_leaves_the_embedded_model(tmp_path: Path) -> None:
    require_compiled()
    tiny = Tiny("qwen2", hidden=64, intermediate=96, head_dim=32)
    path = write(tmp_path / "coder-Q8_0.gguf", make(tmp_path / "tiny", tiny), "Q8_0")
    async with started(ALONE, settings={"model": str(path), "suggestions": 0, "weights": "int8"}) as editor:
        status = await editor.ask("efim/status")
        assert (status["state"], status["model"], status["weights"]) == ("ready", str(path), "int8")
        await complete(editor)
        assert editor.messages == []
    path.write_bytes(path.read_bytes()[:-4096])
    async with started(ALONE, settings={"model": str(path)}) as editor:
        [message] = editor.messages
        assert f"using the embedded model, because {path} is damaged (it ends before" in message
        status = await editor.ask("efim/status")
        assert (status["state"], status["model"]) == ("ready", str(EMBEDDED))
        assert await editor.open("def area(width, height):\n    return width * height\n\n\narea(‸").item() is not None
