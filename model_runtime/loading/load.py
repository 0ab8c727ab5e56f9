"""Loads a checkpoint: chooses device and decoder, prepares weights and arenas, and returns an engine's parts."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Unpack

import numpy as np

from model_runtime.checkpoint.config import ModelConfig, read_languages
from model_runtime.checkpoint.hub_names import hub_origin
from model_runtime.checkpoint.rope import rotation_bytes
from model_runtime.decoder.any_decoder import AnyDecoder, Runtime
from model_runtime.decoder.gpu.device import (
    BF16,
    DeviceChoice,
    GpuError,
    choose_device,
    gpu_format,
    refused,
    release_unused,
)
from model_runtime.decoder.native.library import library_hash
from model_runtime.engine.decode import DecodeContext
from model_runtime.engine.engine import EngineDescription
from model_runtime.engine.local import EngineParts
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams, read_ngrams
from model_runtime.engine.prefill import PrefillStep
from model_runtime.errors import ModelError
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import EXCERPT_ROWS_KEPT, FP32, KvFormat, KvLayout, arena_bytes, fingerprint
from model_runtime.kv.pool import Pool
from model_runtime.loading.checkpoint_reader import Checkpoint
from model_runtime.loading.decoders import LoadOptions, LoadPlan, LoadRequest, load_decoder
from model_runtime.loading.file_hashes import start_hashing
from model_runtime.loading.memory_fit import FitRequest, fit_on_cpu, kv_bytes, model_size, no_memory, usable_formats
from model_runtime.loading.weight_format import keeping_format
from model_runtime.machine import cpu_name
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import Mask
from model_runtime.shelves.composition.composer import composition_step
from model_runtime.shelves.isolated.library import ExcerptLibrary

MOST_ARENAS = 64  # each is compared with every prompt
MIB = 1 << 20
# Parameters times passes that an answer may spend on lines likelier than the greedy one: at most 10 ms on a CPU. Not
# measured here: the same model shall give the same answers at every start.
LINE_WORK = 60_000_000
DIGEST = 32  # digits
GPU_TABLES = 2  # of the size of the rotations: their cosines and sines, each number twice
ROOT = Path(__file__).parents[1]
ROOMS = ("kv", "checkpoint", "decoder", "shelves")  # all that a forward pass runs is in these

# Returns what an option adds if one of its approximations is asked for, given a decoder, the device that it is on and
# the arenas that it fills; and what the option says of that, or nothing if none is asked for.
StepRow = Callable[[Collection[str], AnyDecoder, str, Pool[Arena]], tuple[PrefillStep | None, str]]
# What options add to the filling of arenas, in their order.
STEPS: tuple[StepRow, ...] = (composition_step,)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The tokenizer and template that make a model's prompts and read its answers, and its folder.

    `ngrams` is the mixture: the fit in the model's folder, if the setting allows it. A model that
    was trained with a `mask` takes excerpts of at most `excerpt_rows` tokens with a prompt. `digest` tells the
    files of a model in memory from any other model's, in hexadecimal.
    """

    folder: Path
    tokenizer: Tokenizer
    template: Template
    ngrams: Ngrams | None
    excerpt_rows: int = 0
    mask: Mask | Literal[""] = ""
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class LoadedModel(Model):
    """A model in memory: the parts of its engine, and the format of the keys and values that it computes."""

    parts: EngineParts
    kv: KvFormat


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
    if choice.device != "cpu":
        return LoadPlan(choice, capacity, arenas, [])
    quantization = checkpoint.quantization
    request = FitRequest(config, options["weights"], kv, checkpoint.folder, quantization=quantization)
    if request.wanted == "auto" and (keeping := keeping_format(config, quantization)):
        with suppress(ModelError):  # memory has no room for it, but perhaps for another
            forms = usable_formats(request._replace(wanted=keeping))
            because = f"it keeps the numbers of the file, {quantization}"
            return LoadPlan(choice, capacity, arenas, forms, None, keeping, because)
    fit = fit_on_cpu(request, in_part=bool(options.get("overflow")))
    return LoadPlan(choice, capacity, arenas, *fit, request.wanted)


def load(
    checkpoint: Checkpoint, *, ngrams: bool, progress: Callable[[str, int], None], **options: Unpack[LoadOptions]
) -> LoadedModel:
    """Load a checkpoint's weights; ModelError names the fault, in it or in this machine."""
    plan = plan_load(checkpoint, **options)
    try:
        return _load(checkpoint, plan, ngrams, progress, options)
    except MemoryError as error:
        raise no_memory(model_size(checkpoint.config, checkpoint.folder), plan.forms) from error


def _load(
    checkpoint: Checkpoint, plan: LoadPlan, ngrams: bool, progress: Callable[[str, int], None], options: LoadOptions
) -> LoadedModel:
    folder, config, tokenizer, template, _ = checkpoint
    progress("reading the weights", 20)
    hashed = start_hashing(checkpoint.files, options.get("hash_notes"))
    with ExitStack() as stack:
        stack.callback(hashed.cancel)  # weights that are refused may be a file without an end
        plan, runtime = _load_where_it_runs(checkpoint, plan, options, progress, hashed)
        cache, cache_reason = _read_ngrams(folder, ngrams)
        known = fingerprint(hashed.result(), config, kv_code(runtime, plan.choice))
        kv = KvFormat(known, KvLayout.of(config), runtime.decoder.rotations, runtime.bf16)
    library = _excerpt_library(config, runtime)
    pool = Pool(runtime.arena, runtime.arenas, library and library.place)
    asked = options.get("approximations", ())
    rows = [row(asked, runtime.decoder, plan.choice.device, pool) for row in STEPS]
    description = replace(
        _description(checkpoint, runtime, plan.choice),
        threads=options["threads"],
        threads_reason=options.get("threads_reason", ""),
        ngrams=cache is not None,
        ngrams_reason=cache_reason,
        options="; ".join(said for _, said in rows if said),
    )
    parts = EngineParts(
        DecodeContext.of(runtime.decoder, tokenizer, cache, template.ends),
        pool,
        plan.capacity,
        line_tokens=LINE_WORK // runtime.parameters if runtime.parameters else 0,
        library=library,
        steps=tuple(step for step, _ in rows if step),
        description=description,
    )
    return LoadedModel(
        folder=folder,
        tokenizer=tokenizer,
        template=template,
        ngrams=cache,
        excerpt_rows=config.excerpt_rows,
        mask=config.mask,
        parts=parts,
        kv=kv,
        digest=hashlib.sha256(b"".join(hashed.result())).hexdigest()[:DIGEST],
    )


def _description(checkpoint: Checkpoint, runtime: Runtime, choice: DeviceChoice) -> EngineDescription:
    """Return what the checkpoint and its decoder say."""
    model, revision = hub_origin(checkpoint.named)
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
        return plan, load_decoder(LoadRequest(checkpoint, plan, options, progress, hashed))
    except GpuError as error:
        if options.get("device") == "cuda":
            raise refused(error) from error
        reason = error.reason
    logger.warning("the model runs on the CPU: %s", reason)
    release_unused()
    plan = plan_load(checkpoint, **{**options, "device": "cpu"})._replace(choice=DeviceChoice("cpu", reason))
    return plan, load_decoder(LoadRequest(checkpoint, plan, options, progress, hashed))


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
