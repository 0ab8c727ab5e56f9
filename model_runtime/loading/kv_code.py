"""Names the code and the libraries that compute keys and values, for the fingerprint of their results."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from model_runtime.decoder.any_decoder import Runtime
from model_runtime.decoder.gpu.device import DeviceChoice
from model_runtime.decoder.native.library import library_hash
from model_runtime.machine import cpu_name

ROOT = Path(__file__).parents[1]
ROOMS = ("kv", "checkpoint", "decoder", "shelves")  # all that a forward pass runs is in these


def kv_code(runtime: Runtime, choice: DeviceChoice) -> list[str]:
    """Return the inputs of keys and values other than the model: code, libraries and the device."""
    code = [runtime.kv, runtime.attention, python_hash(ROOT), library_hash(), np.__version__]
    if runtime.name == "compiled":
        return [*code, cpu_name()]
    import torch

    code.append(torch.__version__)
    if choice.device == "cuda":
        return [*code, torch.cuda.get_device_name(choice.gpu), _version("xformers")]
    return [*code, torch.backends.cpu.get_cpu_capability()]


def python_hash(root: Path) -> str:
    """Return a hash of the modules in those rooms of the runtime."""
    digest = hashlib.sha256()
    for path in sorted(path for room in ROOMS for path in (root / room).rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
