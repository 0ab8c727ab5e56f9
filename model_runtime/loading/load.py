"""Loads a checkpoint: chooses device and decoder, prepares weights and arenas, and returns an engine's parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, TypedDict, Unpack

from model_runtime.checkpoint.config import ModelConfig, read_languages
from model_runtime.checkpoint.hub_names import hub_origin
from model_runtime.checkpoint.rope import rotation_bytes
from model_runtime.checkpoint.tensor_shapes import count_parameters
from model_runtime.checkpoint.weight_files import weight_files
from model_runtime.checkpoint.weights import Weights, read_weights
from model_runtime.decoder.any_decoder import TORCH_ATTENTION, TORCH_ATTENTION_REASON, Runtime
from model_runtime.decoder.gpu.device import (
    BF16,
    Device,
    DeviceChoice,
    GpuError,
    GpuFormat,
    choose_device,
    gpu_format,
    refused,
    release_unused,
)
from model_runtime.decoder.native.held_experts import ExpertKeeper, PartialFit
from model_runtime.decoder.quantization import Format
from model_runtime.engine.decode import DecodeContext
from model_runtime.engine.engine import EngineDescription
from model_runtime.engine.local import EngineParts
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams, read_ngrams
from model_runtime.errors import Fp16Overflow
from model_runtime.kv.arena import DenseArena
from model_runtime.kv.format import KvFormat, fingerprint
from model_runtime.kv.layout import EXCERPT_ROWS_KEPT, FP32, KvLayout, arena_bytes
from model_runtime.kv.pool import Pool
from model_runtime.loading.checkpoint_reader import Checkpoint
from model_runtime.loading.file_hashes import start_hashing
from model_runtime.loading.kv_code import kv_code
from model_runtime.loading.memo import Memo
from model_runtime.loading.memory_fit import CpuFit, FitRequest, fit_on_cpu, kv_bytes, model_size, no_memory
from model_runtime.loading.weight_format import choose_method
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import Mask
from model_runtime.shelves.isolated.library import ExcerptLibrary
from model_runtime.shelves.steps import wanted_steps

MOST_ARENAS = 64  # each is compared with every prompt
MIB = 1 << 20
# Parameters times passes that an answer may spend on lines likelier than the greedy one: at most 10 ms on a CPU. Not
# measured here: the same model shall give the same answers at every start.
LINE_WORK = 60_000_000
GPU_TABLES = 2  # of the size of the rotations: their cosines and sines, each number twice

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The tokenizer and template that make a model's prompts and read its answers.

    `ngrams` is the mixture: the fit in the model's folder, if the setting allows it. A model that
    was trained with a `mask` takes excerpts of at most `excerpt_rows` tokens with a prompt.
    """

    tokenizer: Tokenizer
    template: Template
    ngrams: Ngrams | None
    excerpt_rows: int = 0
    mask: Mask | Literal[""] = ""


@dataclass(frozen=True, kw_only=True)
class LoadedModel(Model):
    """A model in memory: the parts of its engine, and the format of the keys and values that it computes."""

    parts: EngineParts
    kv: KvFormat


class DecoderOptions(TypedDict):
    """Where and how a model is to be computed.

    `weights` of fp16 and fp32 apply to a CPU only: a GPU computes bf16, or int8 if that is asked for. `threads` are a
    CPU's.
    """

    device: NotRequired[Device]
    weights: Literal["auto", "fp32", "fp16", "int8"]
    threads: int


class LoadOptions(DecoderOptions):
    """How to load a model: `capacity` is the most tokens of an arena.

    All arenas together take at most `kv_memory_mib`, but there is always one; on a CPU they are allocated when first
    needed. `hash_notes` remember the hashes of weights. `approximations` are those that are asked for.
    `overflow` is a folder for what memory has no room for; without one there must be room for all.
    """

    capacity: int
    kv_memory_mib: int
    hash_notes: NotRequired[Memo | None]
    overflow: NotRequired[Path | None]
    approximations: NotRequired[Collection[str]]


class LoadPlan(NamedTuple):
    """Where a model will be computed, with how many arenas of which capacity; on a CPU, in which formats.

    `part` says how memory holds it if there is no room for all.
    """

    choice: DeviceChoice
    capacity: int
    arenas: int
    forms: list[Format]
    part: PartialFit | None = None


def plan_load(checkpoint: Checkpoint, **options: Unpack[LoadOptions]) -> LoadPlan:
    """Decide how a model can be computed here, even before its weights are fetched; ModelError says why not."""
    config, mib = checkpoint.config, options["kv_memory_mib"]
    capacity = min(options["capacity"], config.context)
    tables = GPU_TABLES * len(config.ropes)
    frame = arena_bytes(config, capacity, BF16) + tables * rotation_bytes(
        config.rotated, config.excerpt_rows + capacity
    )
    choice = choose_device(
        options.get("device", "auto"), config, max(mib, -(-frame // MIB)), gpu_format(options["weights"])
    )
    arenas = _arena_count(config, capacity, mib, BF16 if choice.device == "cuda" else FP32)
    if choice.device == "cuda" and config.excerpt_rows:  # excerpts are computed in a separate slot
        arenas = max(1, arenas - 1)
    kv = kv_bytes(config, capacity, arenas)
    fit = CpuFit([])
    if choice.device == "cpu":
        request = FitRequest(config, options["weights"], kv, checkpoint.folder)
        fit = fit_on_cpu(request, in_part=bool(options.get("overflow")))
    return LoadPlan(choice, capacity, arenas, *fit)


def load(
    checkpoint: Checkpoint,
    *,
    ngrams: bool,
    progress: Callable[[str, int], None],
    **options: Unpack[LoadOptions],
) -> LoadedModel:
    """Load a checkpoint's weights; ModelError names the fault, in it or in this machine."""
    plan = plan_load(checkpoint, **options)
    try:
        return _load(checkpoint, plan, ngrams, progress, options)
    except MemoryError as error:
        raise no_memory(model_size(checkpoint.config, checkpoint.folder), plan.forms) from error


def _load(
    checkpoint: Checkpoint,
    plan: LoadPlan,
    ngrams: bool,
    progress: Callable[[str, int], None],
    options: LoadOptions,
) -> LoadedModel:
    folder, config, tokenizer, template = checkpoint
    progress("reading the weights", 20)
    hashed = start_hashing([*weight_files(folder), folder / "tokenizer.json"], options.get("hash_notes"))
    with ExitStack() as stack:
        stack.callback(hashed.cancel)  # weights that are refused may be a file without an end
        plan, runtime = _load_where_it_runs(checkpoint, plan, options, progress, hashed)
        cache, cache_reason = _read_ngrams(folder, ngrams)
        kv = _kv_format(config, runtime, fingerprint(hashed.result(), config, kv_code(runtime, plan.choice)))
    library = _excerpt_library(config, runtime)
    pool = Pool(runtime.arena, runtime.arenas, library and library.place)
    asked = options.get("approximations", ())
    steps, about_options = wanted_steps(asked, runtime.decoder, plan.choice.device, pool)
    description = replace(
        _description(checkpoint, runtime, plan.choice),
        threads=options["threads"],
        ngrams=cache is not None,
        ngrams_reason=cache_reason,
        options=about_options,
    )
    parts = EngineParts(
        DecodeContext.of(runtime.decoder, tokenizer, cache, template.ends),
        pool,
        plan.capacity,
        line_tokens=LINE_WORK // runtime.parameters if runtime.parameters else 0,
        library=library,
        steps=steps,
        description=description,
    )
    return LoadedModel(
        tokenizer=tokenizer,
        template=template,
        ngrams=cache,
        excerpt_rows=config.excerpt_rows,
        mask=config.mask,
        parts=parts,
        kv=kv,
    )


def _description(checkpoint: Checkpoint, runtime: Runtime, choice: DeviceChoice) -> EngineDescription:
    """Return what the checkpoint and its decoder say."""
    model, revision = hub_origin(checkpoint.folder)
    return EngineDescription(
        model=model,
        revision=revision,
        languages=read_languages(checkpoint.folder),
        parameters=runtime.parameters,
        device=choice.device,
        device_reason=choice.reason,
        weights=runtime.weights,
        decoder=runtime.name,
        decoder_reason=runtime.reason,
        attention=runtime.attention,
        attention_reason=runtime.attention_reason,
        context=checkpoint.config.context,
        arenas=runtime.arenas,
    )


def _kv_format(config: ModelConfig, runtime: Runtime, fingerprint: bytes) -> KvFormat:
    return KvFormat(fingerprint, KvLayout.of(config), runtime.decoder.rotations, runtime.bf16)


def _excerpt_library(config: ModelConfig, runtime: Runtime) -> ExcerptLibrary | None:
    rotations = runtime.decoder.rotations
    if not config.excerpt_rows or runtime.scratch is None or rotations is None:
        return None
    return ExcerptLibrary(runtime.scratch(), rotations, EXCERPT_ROWS_KEPT * config.excerpt_rows)


def _load_where_it_runs(
    checkpoint: Checkpoint,
    plan: LoadPlan,
    options: LoadOptions,
    progress: Callable[[str, int], None],
    hashed: Future[list[bytes]],
) -> tuple[LoadPlan, Runtime]:
    """Load the weights as planned, or on the CPU if only loading shows that the GPU cannot compute the model."""
    try:
        return plan, _load_runtime(checkpoint, plan, options, progress, hashed)
    except GpuError as error:
        if options.get("device") == "cuda":
            raise refused(error) from error
        reason = error.reason
    logger.warning("the model runs on the CPU: %s", reason)
    release_unused()
    plan = plan_load(checkpoint, **{**options, "device": "cpu"})._replace(choice=DeviceChoice("cpu", reason))
    return plan, _load_runtime(checkpoint, plan, options, progress, hashed)


def _load_on_gpu(checkpoint: Checkpoint, tensors: Weights, plan: LoadPlan, form: GpuFormat) -> Runtime:
    """Load a model onto the planned GPU; GpuError if it, or xformers, cannot be used."""
    try:
        from model_runtime.decoder.gpu.load import load_on_gpu
    except Exception as error:  # it compares versions and registers operators of torch's when it is imported
        raise GpuError(
            f"xformers cannot be imported with torch {version('torch')} ({type(error).__name__}: {error})",
            "install the versions of constraints-gpu.txt, or set device to 'cpu'",
        ) from error
    ends = {*checkpoint.tokenizer.special.values(), *checkpoint.config.end_ids, *checkpoint.template.ends}
    tokens = max(checkpoint.tokenizer.vocab, max(ends, default=0) + 1)
    return load_on_gpu(checkpoint.config, tensors, plan.capacity, plan.arenas, form, plan.choice.gpu, tokens)


def _load_runtime(
    checkpoint: Checkpoint,
    plan: LoadPlan,
    options: LoadOptions,
    progress: Callable[[str, int], None],
    hashed: Future[list[bytes]],
) -> Runtime:
    """Load the weights as planned; a GPU's modules and transformers, slow to import, only if they are needed."""
    folder, config, *_ = checkpoint
    choice, capacity, arenas, forms, part = plan
    if config.foreign or choice.device == "cuda":
        import torch

        torch.set_num_threads(options["threads"])
    if config.foreign:
        from model_runtime.decoder.hf.load import load_with_transformers

        way, _ = choose_method(config, options["weights"], forms)
        return load_with_transformers(folder, config, capacity, arenas, way.form)
    tensors = read_weights(folder, config)
    progress("packing the weights", 60)
    if choice.device == "cuda":
        return _load_on_gpu(checkpoint, tensors, plan, gpu_format(options["weights"]))
    keeper = None
    if part and (place := options.get("overflow")):
        progress(part.doing, 70)
        keeper = part.keep(place, hashed.result())
    runtime = load_on_cpu(config, tensors, capacity, arenas, options, forms, keeper)
    tensors.release()  # packed by now, except the token table
    return runtime


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
    way, reason = choose_method(config, wanted, forms)
    try:
        decoder = way.decoder(config, tensors, threads, keeper)
    except Fp16Overflow:
        if wanted != "auto":
            raise
        way, reason = choose_method(config, wanted, forms, [way])
        decoder = way.decoder(config, tensors, threads)
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


def _read_ngrams(folder: Path, enabled: bool) -> tuple[Ngrams | None, str]:
    """Read the fit in the model's folder, with the reason; no default: another model's shares would be wrong."""
    if not enabled:
        return None, "switched off"
    cache = read_ngrams(folder)
    return cache, "fitted to this model" if cache else f"the model's folder has no {NGRAMS_FILE}"


def _arena_count(config: ModelConfig, capacity: int, mib: int, element: int) -> int:
    """Return how many arenas with elements of `element` bytes fit, at least the arena that an answer needs."""
    size = arena_bytes(config, capacity, element)
    if size > mib * MIB:
        logger.info("memory_mib leaves %d MiB to arenas, but the one arena needs %d", mib, -(-size // MIB))
    return max(1, min(MOST_ARENAS, mib * MIB // size))
