"""The decoders that can compute a model, a row each, and the plan that they follow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, TypedDict

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.tensor_shapes import count_parameters
from model_runtime.checkpoint.weights import StoredWeights, Weights, read_weights
from model_runtime.decoder.any_decoder import TORCH_ATTENTION, TORCH_ATTENTION_REASON, Runtime
from model_runtime.decoder.gpu.device import Device, DeviceChoice, GpuError, gpu_format
from model_runtime.decoder.native.held_experts import ExpertKeeper, PartialFit
from model_runtime.decoder.quantization import Format
from model_runtime.errors import Fp16Overflow
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.checkpoint_reader import Checkpoint
from model_runtime.loading.file_hashes import Memo
from model_runtime.loading.weight_format import CpuMethod, choose_method


class DecoderOptions(TypedDict):
    """Where and how a model is to be computed.

    `weights` of fp16 and fp32 apply to a CPU only: a GPU computes bf16, or int8 if that is asked for. `threads` are a
    CPU's.
    """

    device: NotRequired[Device]
    weights: Literal["auto"] | Format
    threads: int


class LoadOptions(DecoderOptions):
    """How to load a model: `capacity` is the most tokens of an arena.

    All arenas together take at most `kv_memory_mib`, but there is always one; on a CPU they are allocated when first
    needed. `hash_notes` remember the hashes of weights. `approximations` are those that are asked for.
    `overflow` is a folder for what memory has no room for; without one there must be room for all. `threads_reason`
    says why there are as many threads.
    """

    capacity: int
    kv_memory_mib: int
    hash_notes: NotRequired[Memo | None]
    overflow: NotRequired[Path | None]
    approximations: NotRequired[Collection[str]]
    threads_reason: NotRequired[str]


class LoadPlan(NamedTuple):
    """Where a model will be computed, with how many arenas of which capacity; on a CPU, in which formats.

    `part` says how memory holds it if there is no room for all. `weights` is the format that is wanted, and `because`
    why, if the settings do not say so.
    """

    choice: DeviceChoice
    capacity: int
    arenas: int
    forms: list[Format]
    part: PartialFit | None = None
    weights: Literal["auto"] | Format = "auto"
    because: str = ""


class LoadRequest(NamedTuple):
    """A checkpoint to be loaded as planned; `hashed` are the hashes of its files, once they are known."""

    checkpoint: Checkpoint
    plan: LoadPlan
    options: LoadOptions
    progress: Callable[[str, int], None]
    hashed: Future[list[bytes]]

    def tensors(self) -> StoredWeights:
        """Return the weights, which are to be packed next."""
        folder, config, _, _, adapter = self.checkpoint
        weights = read_weights(folder, config)
        if adapter:
            self.progress("merging the adapter", 40)
            weights = adapter.merged(weights, config)
        self.progress("packing the weights", 60)
        return weights


def load_decoder(request: LoadRequest) -> Runtime:
    """Load the weights as planned; GpuError if only loading shows that a GPU cannot compute the model."""
    foreign, device = request.checkpoint.config.foreign, request.plan.choice.device
    return DECODERS["transformers" if foreign else device](request)


def _with_transformers(request: LoadRequest) -> Runtime:
    _set_threads(request)
    from model_runtime.decoder.hf.load import load_with_transformers  # slow to import

    (folder, config, *_), plan = request.checkpoint, request.plan
    way, _ = choose_method(config, plan.weights, plan.forms)
    return load_with_transformers(folder, config, plan.capacity, plan.arenas, way.form)


def _on_gpu(request: LoadRequest) -> Runtime:
    _set_threads(request)
    checkpoint, plan, tensors = request.checkpoint, request.plan, request.tensors()
    try:
        from model_runtime.decoder.gpu.load import load_on_gpu
    except Exception as error:  # it compares versions and registers operators of torch's when it is imported
        raise GpuError(
            f"xformers cannot be imported with torch {version('torch')} ({type(error).__name__}: {error})",
            "install the versions of constraints-gpu.txt, or set device to 'cpu'",
        ) from error
    ends = {*checkpoint.tokenizer.special.values(), *checkpoint.config.end_ids, *checkpoint.template.ends}
    tokens, form = max(checkpoint.tokenizer.vocab, max(ends, default=0) + 1), gpu_format(request.options["weights"])
    return load_on_gpu(checkpoint.config, tensors, plan.capacity, plan.arenas, form, plan.choice.gpu, tokens)


def _on_cpu(request: LoadRequest) -> Runtime:
    _, capacity, arenas, forms, part, weights, because = request.plan
    tensors, keeper = request.tensors(), None
    if part and (place := request.options.get("overflow")):
        request.progress(part.doing, 70)
        keeper = part.keep(place, request.hashed.result())
    options = DecoderOptions(weights=weights, threads=request.options["threads"])
    runtime = load_on_cpu(request.checkpoint.config, tensors, capacity, arenas, options, forms, keeper)
    if because:
        runtime = runtime._replace(reason=because)
    tensors.release()  # packed by now, except the token table
    return runtime


def _set_threads(request: LoadRequest) -> None:
    import torch

    torch.set_num_threads(request.options["threads"])


# By the device of a plan, unless the model is known to transformers alone.
DECODERS: Mapping[Literal["transformers", "cuda", "cpu"], Callable[[LoadRequest], Runtime]] = {
    "transformers": _with_transformers,
    "cuda": _on_gpu,
    "cpu": _on_cpu,
}


def load_on_cpu(
    config: ModelConfig,
    tensors: Weights,
    capacity: int,
    arenas: int,
    options: DecoderOptions,
    forms: Collection[Format],
    keeper: ExpertKeeper | None = None,
) -> Runtime:
    """Load a model on the CPU by the first method of the rule that the options and the formats allow.

    With a keeper, which needs the compiled decoder, memory holds some experts alone.
    """
    config = replace(config, context=capacity)  # tables by position need not reach beyond the arenas
    wanted, threads = options["weights"], options["threads"]
    overflowing = list[CpuMethod]()
    while True:
        way, reason = choose_method(config, wanted, forms, overflowing)
        try:
            decoder = way.decoder(config, tensors, threads, keeper)
            break
        except Fp16Overflow:
            if wanted != "auto":
                raise
            overflowing.append(way)
    if keeper is not None:
        reason += f"; {keeper.reason}"
    return Runtime(
        parameters=count_parameters(config),
        decoder=decoder,
        arena=lambda: DenseArena(config, capacity),
        scratch=lambda: DenseArena(replace(config, excerpt_rows=0), config.excerpt_rows),
        arenas=arenas,
        weights=way.form,
        kv=str(way),
        name="compiled" if way.compiled else "torch",
        reason=reason,
        attention="compiled" if way.compiled else TORCH_ATTENTION,
        attention_reason="a part of the compiled decoder" if way.compiled else TORCH_ATTENTION_REASON,
    )
