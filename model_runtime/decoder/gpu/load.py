"""Loads a model's weights as a decoder on a GPU."""

from __future__ import annotations

import logging

import torch

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.tensor_shapes import count_parameters
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import Runtime
from model_runtime.decoder.gpu.attention import choose_attention, describe_error
from model_runtime.decoder.gpu.decoder import GpuDecoder
from model_runtime.decoder.gpu.device import GpuError, GpuFormat
from model_runtime.decoder.gpu.graphs import graph_recorder
from model_runtime.decoder.gpu.kernels import compiled_kernels
from model_runtime.decoder.gpu.slab import Slab, most_slots
from model_runtime.machine import describe_gpu

logger = logging.getLogger(__name__)


def load_on_gpu(
    config: ModelConfig,
    weights: Weights,
    capacity: int,
    arenas: int,
    form: GpuFormat = "bf16",
    gpu: int = 0,
    tokens: int | None = None,
) -> Runtime:
    """Load the model onto a GPU and record passes of up to 64 rows; the first time takes up to a minute.

    `tokens` is how many of the model's vocabulary can be chosen (default: all). Raises GpuError if the GPU turns out
    not to compute the model.
    """
    arenas = min(arenas, most_slots(config, capacity))
    try:
        with torch.cuda.device(gpu):
            torch.compiler.reset()  # else what earlier models had compiled counts against dynamo's limit
            slab = Slab(config, capacity, arenas, torch.bfloat16, torch.device("cuda", gpu))
            how = choose_attention(slab, config.full.heads)
            decoder = GpuDecoder(
                config, weights, slab, how.attend, compiled_kernels(), graph_recorder(), form, tokens
            )
            torch.cuda.synchronize()
    except GpuError:
        raise
    except torch.cuda.OutOfMemoryError as error:
        reason = f"the GPU's memory is too small ({error})"
        raise GpuError(reason, "lower memory_mib or set device to 'cpu'") from error
    except Exception as error:  # kernels are compiled here, and each compiler has its own errors
        logger.info("the GPU cannot run the model", exc_info=True)
        raise GpuError(f"{describe_gpu(gpu)} cannot run this model ({describe_error(error)})") from error
    return Runtime(
        parameters=count_parameters(config),
        decoder=decoder,
        arena=slab.arena,
        scratch=slab.scratch,
        arenas=arenas,
        weights=form,
        kv=f"{form} cuda, bf16 keys and values",
        name="CUDA graphs",
        reason="passes of up to 64 rows are recorded, wider ones are not",
        attention=how.backend,
        attention_reason=how.reason,
        bf16=True,
    )
