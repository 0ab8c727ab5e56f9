"""`efim-ls models` lists the GGUF files that other programs keep on this machine, and says which can be used."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.gguf_files import write
from tests.lsp.wire import ENV
from tests.models import Tiny, make
from tests.waiting import HANG

DIGEST = "sha256:" + "ab" * 32


def run(home: Path, *arguments: str) -> str:
    """Run the command for a user with this home, and return its output."""
    env = {
        **ENV,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "efim"),
        "HF_HOME": str(home / "hf"),
        "COLUMNS": "250",
    }
    for name in ("OLLAMA_MODELS", "LLAMA_CACHE"):
        env.pop(name, None)
    command = [sys.executable, "-m", "efim_ls", "models", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANG, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user of all these programs."""
    home = tmp_path_factory.mktemp("home")
    tiny = make(home / "tiny", Tiny("qwen2", hidden=64, intermediate=96, head_dim=32))
    ollama = home / ".ollama" / "models"
    blob = write(ollama / "blobs" / DIGEST.replace(":", "-"), tiny, "Q4_0")
    for name, digest in (("library/coder/1.5b", DIGEST), ("me/gone/latest", "sha256:" + "cd" * 32)):
        manifest = ollama / "manifests" / "registry.ollama.ai" / name
        manifest.parent.mkdir(parents=True)
        layers = [
            {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": digest} for kind in ("params", "model")
        ]
        manifest.write_text(json.dumps({"layers": layers}))
    (ollama / "manifests" / "registry.ollama.ai" / "library" / "coder" / "broken").write_text('{"layers":')
    write(home / ".lmstudio" / "models" / "me" / "coder-GGUF" / "coder-F16.gguf", tiny, "F16", parts=2)
    (home / ".cache" / "lm-studio" / "models" / "me").mkdir(parents=True)
    shutil.copy(blob, home / ".cache" / "lm-studio" / "models" / "me" / "mmproj-coder.gguf")
    cache = home / ".cache" / "llama.cpp"
    cache.mkdir()
    (cache / "cut.gguf").write_bytes(blob.read_bytes()[:-4096])
    shutil.copytree(tiny, home / "markerless")
    path = home / "markerless" / "tokenizer.json"
    path.write_text(path.read_text().replace("<|fim_", "<|no_"))
    snapshot = home / "hf" / "hub" / "models--me--chat-GGUF" / "snapshots" / ("a" * 40)
    write(snapshot / "chat.gguf", home / "markerless", "Q8_0")
    return home


@pytest.fixture(scope="module")
def found(home: Path) -> dict[str, dict[str, Any]]:
    models = json.loads(run(home, "--json"))["models"]
    return {model["name"]: model for model in models if model["downloaded"] and "embedded" not in model["name"]}


def test_each_is_listed_once_with_its_size_and_quantization(home: Path, found: dict[str, dict[str, Any]]) -> None:
    parts = "LM Studio: me/coder-GGUF/coder-F16-00001-of-00002.gguf"
    assert list(found) == [parts, "Ollama: coder:1.5b", "llama.cpp: cut.gguf", "me/chat-GGUF/chat.gguf"]
    assert [model["quantization"] for model in found.values()] == ["F16", "Q4_0", None, "Q8_0"]
    own = found["Ollama: coder:1.5b"]
    assert own["setting"] == own["folder"] == str(home / ".ollama" / "models" / "blobs" / DIGEST.replace(":", "-"))
    assert own["bytes_on_disk"] == Path(own["folder"]).stat().st_size and own["family"] == "qwen" and own["fits"]
    assert found[parts]["bytes_on_disk"] == sum(
        path.stat().st_size for path in Path(found[parts]["folder"]).parent.iterdir()
    )


def test_what_cannot_be_used_says_why(found: dict[str, dict[str, Any]]) -> None:
    problems = {name: model["problem"] for name, model in found.items() if model["problem"]}
    assert list(problems) == ["llama.cpp: cut.gguf", "me/chat-GGUF/chat.gguf"]
    assert "cut.gguf is damaged (it ends before" in problems["llama.cpp: cut.gguf"]
    assert "fill-in-the-middle" in problems["me/chat-GGUF/chat.gguf"]


def test_the_table_says_it_too_and_marks_the_file_in_use(home: Path, found: dict[str, dict[str, Any]]) -> None:
    lines = [" ".join(line.split()) for line in run(home).splitlines()]
    assert any(line.startswith("Ollama: coder:1.5b (Q4_0) 0M 0.00G") for line in lines)
    assert any(line.startswith("llama.cpp: cut.gguf cannot be used: ") for line in lines)
    path = found["Ollama: coder:1.5b"]["folder"]
    elsewhere = str(shutil.copy(path, home / "mine.gguf"))
    hub = "me/chat-GGUF/chat.gguf"
    for named, name in ((path, "Ollama: coder:1.5b"), (elsewhere, elsewhere), ("me/chat-GGUF@" + "a" * 40, hub)):
        models = json.loads(run(home, "--json", "--model", named))["models"]
        assert [model["name"] for model in models if model["current"]] == [name]
