"""Chooses what the experiment runs on: a usable GPU, else the CPU's fastest decoder."""

from __future__ import annotations

from pathlib import Path

import torch

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.any_decoder import Runtime
from model_runtime.decoder.gpu.device import choose_device
from model_runtime.errors import ModelError
from model_runtime.kv.layout import arena_bytes
from model_runtime.loading.decoders import DecoderOptions, load_on_cpu
from model_runtime.loading.memory_fit import FitRequest, kv_bytes, usable_formats

MIB = 1 << 20
THREADS = 1  # the server's default


def load_runtime(folder: Path, capacity: int, arenas: int) -> tuple[str, Runtime]:
    """Load a model with `arenas` arenas of `capacity` tokens; return the device's name and the runtime.

    Raises ModelError if memory is too small.
    """
    config = read_config(folder)
    mib = -(-arenas * arena_bytes(config, capacity) // MIB)
    device = choose_device("auto", config, mib)
    torch.set_num_threads(THREADS)
    weights = read_weights(folder, config)
    if device.device == "cpu":
        wanted = DecoderOptions(weights="auto", threads=THREADS)
        forms = usable_formats(FitRequest(config, "auto", kv_bytes(config, capacity, arenas)))
        return "CPU, one thread", load_on_cpu(config, weights, capacity, arenas, wanted, forms)

    from model_runtime.decoder.gpu.load import load_on_gpu  # on a CPU it may not be installed

    runtime = load_on_gpu(config, weights, capacity, arenas, gpu=device.gpu)
    if runtime.arenas < arenas:
        raise ModelError(f"the GPU can hold {runtime.arenas} KV caches, {arenas} are needed: lower --users")
    return torch.cuda.get_device_name(device.gpu), runtime
