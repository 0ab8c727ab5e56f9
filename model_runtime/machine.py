"""What the machine offers."""

from __future__ import annotations

from importlib.util import find_spec

import torch

LEAST_CAPABILITY = (8, 0)  # before that, GPUs have no bf16


def cuda_missing() -> str | None:
    """Why a model cannot be computed on a GPU here; None where it can."""
    if torch.version.cuda is None:
        return "this build of torch has no CUDA"
    if not torch.cuda.is_available():
        return "there is no usable NVIDIA GPU"
    if torch.cuda.get_device_capability() < LEAST_CAPABILITY:
        return f"{torch.cuda.get_device_name()} is too old for bf16"
    if not find_spec("xformers"):
        return "xformers is not installed: run pip install '.[gpu]' in a clone of efim-ls"
    return None


def cuda_state() -> str:
    """Say whether CUDA could be used, and why it is not."""
    reason = cuda_missing()
    if reason is None:
        return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    name = f"{torch.cuda.get_device_name()} is there, but " if torch.cuda.is_available() else ""
    return name + reason
