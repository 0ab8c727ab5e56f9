"""Loads a model's weights as a decoder on the GPU."""

from __future__ import annotations

import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.weights import Weights, count_parameters
from model_runtime.decoder.decoder import Runtime
from model_runtime.decoder.gpu import attention
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.device import GpuFormat
from model_runtime.decoder.gpu.graphs import graph_recorder
from model_runtime.decoder.gpu.kernels import compiled_kernels
from model_runtime.decoder.gpu.slab import Slab, most_slots
from model_runtime.errors import ModelError


def load_on_gpu(
    config: ModelConfig, weights: Weights, capacity: int, arenas: int, form: GpuFormat = "bf16"
) -> Runtime:
    """Load the model onto the GPU and record passes of up to 64 rows; the first time takes up to a minute."""
    arenas = min(arenas, most_slots(config, capacity))
    how = attention.choose_attention(torch.device("cuda"), config.head_dim)
    try:
        slab = Slab(config, capacity, arenas, torch.bfloat16, torch.device("cuda"))
        decoder = GpuDecoder(config, weights, slab, how.attend, compiled_kernels(), graph_recorder(), form)
        torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError as error:
        raise ModelError(
            f"the GPU's memory is too small ({error}): lower kv_memory_mib or set device to 'cpu'"
        ) from error
    except Exception as error:  # kernels are compiled here, and each compiler has errors of its own
        raise ModelError(f"the GPU cannot run this model ({error!r}): set device to 'cpu'") from error
    return Runtime(
        parameters=count_parameters(weights),
        decoder=decoder,
        arena=slab.arena,
        arenas=arenas,
        weights=form,
        kv=f"{form} cuda",
        name="CUDA graphs",
        reason="passes of up to 64 rows are recorded, wider ones are not",
        attention=how.backend,
        attention_reason=how.reason,
    )
