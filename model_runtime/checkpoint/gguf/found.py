"""Finds the GGUF files that other programs keep on this machine: Ollama, LM Studio, llama.cpp, the hub's client."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from model_runtime.checkpoint.gguf.header import PICTURES, part_paths
from model_runtime.regular_files import MIB, read_regular

MODEL_LAYER = "application/vnd.ollama.image.model"
USUAL = ("registry.ollama.ai", "library")  # parts of the names of Ollama's models that are left out


class FoundFile(NamedTuple):
    """A model in GGUF: a name that says whose it is, and its file, the first one if it is in parts."""

    name: str
    path: Path

    @property
    def size(self) -> int:
        """Bytes of all its parts that are here."""
        return sum(path.stat().st_size for path in part_paths(self.path) if path.is_file())


def found_files(hub: Path | None = None) -> list[FoundFile]:
    """Return the models in GGUF that are kept here, each once; `hub` is the cache of the hub's client."""
    found = dict[Path, FoundFile]()
    for file in (*_of_ollama(), *_of_lm_studio(), *_of_llama_cpp(), *(_of_hub(hub) if hub else ())):
        found.setdefault(file.path.resolve(), file)
    return sorted(found.values())


def _of_ollama() -> Iterator[FoundFile]:
    models = Path(os.environ.get("OLLAMA_MODELS") or Path.home() / ".ollama" / "models")
    for manifest in (path for path in models.glob("manifests/*/*/*/*") if path.is_file()):
        registry, owner, name, tag = manifest.relative_to(models / "manifests").parts
        parts = [part for part, usual in zip((registry, owner), USUAL, strict=True) if part != usual]
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):  # another program's, or half written
            raw = cast("dict[str, Any]", json.loads(read_regular(manifest, MIB)))
            digests = [str(each["digest"]) for each in raw["layers"] if each["mediaType"] == MODEL_LAYER]
            blob = models / "blobs" / digests[0].replace(":", "-") if digests else None
            if blob is not None and blob.is_file():
                yield FoundFile(f"Ollama: {'/'.join([*parts, name])}:{tag}", blob)


def _of_lm_studio() -> Iterator[FoundFile]:
    for models in (Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"):
        for path in _firsts(models.rglob("*.gguf")):
            yield FoundFile(f"LM Studio: {path.relative_to(models).as_posix()}", path)


def _of_llama_cpp() -> Iterator[FoundFile]:
    caches = (
        os.environ.get("LLAMA_CACHE"),
        Path.home() / ".cache" / "llama.cpp",
        Path.home() / "Library/Caches/llama.cpp",
    )
    for path in _firsts(path for cache in caches if cache for path in Path(cache).glob("*.gguf")):
        yield FoundFile(f"llama.cpp: {path.name}", path)


def _of_hub(cache: Path) -> Iterator[FoundFile]:
    for path in _firsts(cache.glob("models--*/snapshots/*/**/*.gguf")):
        repository, _, _, *inside = path.relative_to(cache).parts
        name = repository.removeprefix("models--").replace("--", "/")
        yield FoundFile("/".join([name, *inside]), path)


def _firsts(paths: Iterator[Path]) -> Iterator[Path]:
    """Yield the first parts of models, without what reads pictures."""
    return (path for path in paths if path == part_paths(path)[0] and PICTURES not in path.name)
