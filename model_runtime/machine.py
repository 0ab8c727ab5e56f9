"""What the machine offers."""

from __future__ import annotations

import torch


def cuda_state() -> str:
    """Say whether CUDA could be used, and why it is not."""
    if torch.version.cuda is None:
        return "this build of torch has none"
    if not torch.cuda.is_available():
        return "no usable NVIDIA GPU"
    return f"{torch.cuda.get_device_name()} is there, but this version runs on the CPU only"
