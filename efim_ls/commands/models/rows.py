"""Lists known and downloaded models, with what fits this machine and what keys cost. Works offline."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from efim_ls.commands.models.running import RunningServer, running_servers
from efim_ls.completion.models.open import capacity, fit_budget
from efim_ls.languages.table import listed, names_of
from efim_ls.memory_shares import share_out
from efim_ls.settings import DEFAULTS
from model_runtime.checkpoint.config import ModelConfig, parse_config, read_config
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED, embedded_models
from model_runtime.checkpoint.gguf.found import FoundFile
from model_runtime.checkpoint.gguf.header import read_header
from model_runtime.checkpoint.hub_names import (
    CachedModel,
    cached_folder,
    cached_models,
    gguf_models,
    hub_name,
    local_folder,
)
from model_runtime.decoder.gpu.device import BF16
from model_runtime.decoder.quantization import Format
from model_runtime.errors import ModelError
from model_runtime.kv.layout import FP32
from model_runtime.loading.checkpoint_reader import inspect_gguf, read_architecture, read_tokenizer
from model_runtime.loading.known_models import KNOWN_MODELS, KnownModel
from model_runtime.loading.memory_fit import (
    FORMAT_BYTES,
    FitRequest,
    ModelSize,
    automatic_formats,
    fit_in_part,
    fitting_formats,
    kv_bytes,
    model_size,
    usable_gpu_formats,
)
from model_runtime.loading.pass_times import KeyCosts, PassTimes, key_costs, measure_passes
from model_runtime.loading.threads import LARGE, choose_threads, read_cpus
from model_runtime.loading.weight_format import choose_method, supported_formats
from model_runtime.machine import available_memory, memory_bandwidth
from model_runtime.prompt.template import find_template

# The shape of Qwen2.5-Coder-0.5B: cold places of models that are not measured are estimated by its passes.
LARGER = parse_config(
    {"model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4_864}
    | {"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True}
)
OWN_LICENCE = "Apache-2.0"  # of the models of this package


@dataclass(frozen=True)
class Machine:
    """The machine: free bytes of memory, bytes per second that one thread reads, and usable weight formats."""

    free: int
    bandwidth: float
    formats: list[Format]
    kv: int  # bytes of KV arenas
    row: float | None  # milliseconds of a larger model's row for each parameter, None if nothing is computed here


@dataclass(frozen=True)
class ModelRow:
    """A model; None is unknown. `fits`: formats on the CPU; `milliseconds`: of a typical key and of a cold place.

    `setting` is the value of the setting model that chooses it; `current`: this is the model in use. A model that
    does not fit whole may fit `in_part`, with the rest on disk. A GGUF file has a `quantization`, an embedded model
    the names of its `languages`, and a server on this machine the address for the setting `engine`.
    """

    name: str
    setting: str
    current: bool
    downloaded: bool
    folder: str | None = None
    revision: str | None = None
    bytes_on_disk: int | None = None
    parameters: int | None = None
    context: int | None = None
    licence: str | None = None
    family: str | None = None
    fits: tuple[str, ...] = ()
    fits_gpu: tuple[str, ...] = ()
    in_part: str | None = None
    milliseconds: float | None = None
    cold_milliseconds: float | None = None
    measured: bool = False
    problem: str | None = None
    quantization: str | None = None
    languages: tuple[str, ...] = ()
    engine: str | None = None

    @property
    def choice(self) -> tuple[str, str | None]:
        """The values that choose it, of the settings `model` and `engine`."""
        return self.setting, self.engine

    @property
    def answers_second(self) -> bool:
        """Whether it is so large that the embedded models answer before it."""
        return (self.parameters or 0) >= LARGE


class NoCosts(NamedTuple):
    """What a model costs that does not fit."""

    typical: None = None
    cold: None = None


def list_models(current: str) -> tuple[Machine, list[ModelRow]]:
    """Return the machine and the models; `current` is the value of the setting model."""
    machine = _machine()
    return machine, [*_rows(machine, _times(read_config(EMBEDDED)), current)]


def _times(config: ModelConfig) -> PassTimes | None:
    """Measure passes of a model, which takes some tenths of a second; None if it cannot run here."""
    try:
        way, _ = choose_method(config, "auto", automatic_formats(model_size(config), FORMAT_BYTES))
    except ModelError:
        return None
    threads = choose_threads("auto", model_size(config).parameters, read_cpus()).threads
    return measure_passes(config, [way], threads)[way]


def _machine() -> Machine:
    times = _times(LARGER)
    return Machine(
        available_memory(),
        memory_bandwidth(),
        [*supported_formats(read_config(EMBEDDED))],
        share_out(DEFAULTS.memory_mib).arenas << 20,
        None if times is None else times.row / _computed(model_size(LARGER)),
    )


def _computed(size: ModelSize) -> int:
    """Return the parameters that a row of a prompt meets: all but embedding or head, and idle experts."""
    return size.parameters - size.matrix - size.idle


def _rows(machine: Machine, times: PassTimes | None, current: str) -> Iterator[ModelRow]:
    """Yield the models on this disk, then the others, the quickest first; `times` are the embedded model's passes."""
    here = cached_models()
    for embedded, languages in embedded_models().items():
        spoken = names_of(languages)
        model = CachedModel(f"embedded, {listed(spoken)}", "", (), embedded, _size(embedded))
        row = _on_disk(machine, model, "", current, times if embedded in SHIPPED.values() else None)
        yield replace(row, languages=tuple(spoken))
    folder = Path(os.path.expanduser(current))
    if current and folder.is_dir():
        yield _on_disk(machine, CachedModel(current, "", (), folder, _size(folder)), current, current)
    yield from (_on_disk(machine, each, each.name, current) for each in here)
    files = gguf_models()
    file = _path_of(current)
    if current and file.is_file() and file not in {each.path for each in files}:
        files.append(FoundFile(current, file))
    yield from (_in_gguf(machine, each, each.path == file) for each in files)
    yield from map(_running, running_servers())
    names = {each.name for each in here}
    published = [_published(machine, each, current) for each in KNOWN_MODELS if each.name not in names]
    yield from sorted(published, key=lambda row: math.inf if row.milliseconds is None else row.milliseconds)


def _path_of(current: str) -> Path:
    """Return the path of the chosen model, which may be in the hub's cache."""
    with suppress(ModelError):  # it is no model's name, or the hub's client is not installed
        return local_folder(current) or cached_folder(*hub_name(current)) or Path(current)
    return Path(current)


def _on_disk(
    machine: Machine, model: CachedModel, setting: str, current: str, times: PassTimes | None = None
) -> ModelRow:
    row = partial(
        ModelRow, model.name, setting, setting == current, True, str(model.folder), model.commit, model.size
    )
    known = next((each for each in KNOWN_MODELS if each.name == model.name), None)
    licence = known.licence if known else OWN_LICENCE if model.folder in SHIPPED.values() else None
    try:
        config = read_architecture(model.folder)
        family = known.family if known else _markers(model.folder, config)
        return row(*_figures(machine, config, model.folder, licence, family, times))
    except ModelError as error:
        return row(problem=str(error))


def _in_gguf(machine: Machine, file: FoundFile, current: bool) -> ModelRow:
    """Return the row of a GGUF file, of which the header alone is read."""
    path = str(file.path)
    row = partial(ModelRow, file.name, path, current, True, path, None, file.size)
    try:
        header = read_header(file.path)
        row = partial(row, quantization=header.quantization)
        config, family = inspect_gguf(header)
        return row(*_figures(machine, config, file.path, None, family, quantization=header.quantization))
    except ModelError as error:
        return row(problem=str(error))


def _running(server: RunningServer) -> ModelRow:
    name = f"{server.kind} server: {Path(server.model).name if Path(server.model).is_file() else server.model}"
    return ModelRow(name, server.model, current=False, downloaded=True, engine=server.url)


def _figures(
    machine: Machine,
    config: ModelConfig,
    folder: Path,
    licence: str | None,
    family: str,
    times: PassTimes | None = None,
    quantization: str = "",
) -> tuple[Any, ...]:
    """Return the fields of a row from its parameters on, of a model on this disk."""
    size = model_size(config, folder)
    fits, gpu, costs = _costs(machine, size, config, times, quantization)
    request = FitRequest(config, "auto", max(machine.kv, _frame(config)))
    in_part = None if fits else fit_in_part(request, machine.free)
    part = in_part and in_part.forms[0]
    return size.parameters, config.context, licence, family, fits, gpu, part, *costs, bool(fits and times)


def _markers(folder: Path, config: ModelConfig) -> str:
    return find_template(read_tokenizer(folder, config), None, config.end_ids).family


def _published(machine: Machine, known: KnownModel, current: str) -> ModelRow:
    fits, gpu, costs = _costs(machine, ModelSize(known.parameters, known.matrix, idle=known.idle))
    return ModelRow(
        known.name, known.name, known.name == current, downloaded=False, parameters=known.parameters,
        context=known.context, licence=known.licence, family=known.family, fits=fits, fits_gpu=gpu,
        milliseconds=costs.typical, cold_milliseconds=costs.cold,
    )  # fmt: skip


def _costs(
    machine: Machine,
    size: ModelSize,
    config: ModelConfig | None = None,
    times: PassTimes | None = None,
    quantization: str = "",
) -> tuple[tuple[str, ...], tuple[str, ...], KeyCosts | NoCosts]:
    """Return the formats that fit on CPU and GPU, and what keys cost on the CPU, by `times` if they were measured."""
    frame = _frame(config) if config else 0  # there is always room for one, however small memory_mib is
    fits = fitting_formats(
        size, supported_formats(config) if config else machine.formats, max(machine.kv, frame), machine.free
    )
    on_gpu = usable_gpu_formats(size, max(machine.kv, frame // FP32 * BF16), config)
    asked = automatic_formats(size, fits, quantization)
    costs = key_costs(times.one, times.row) if fits and times else _estimate(machine, size, config, asked or fits)
    return tuple(fits), tuple(on_gpu), costs


def _estimate(
    machine: Machine, size: ModelSize, config: ModelConfig | None, fits: list[Format]
) -> KeyCosts | NoCosts:
    """Return the cost of keys, by the time to read a token's weights, and of a cold place, by LARGER's passes."""
    # A token reads one row of the embedding, unless that is tied and therefore read whole as the head.
    unread = config.vocab * config.hidden if config and not config.tied else 0
    if not fits:
        return NoCosts()
    read = min(FORMAT_BYTES[form] for form in fits) * (size.parameters - size.idle - unread)
    return key_costs(1e3 * read / machine.bandwidth, machine.row and machine.row * (_computed(size) - unread))


def _frame(config: ModelConfig) -> int:
    """Return the bytes of one frame's keys and values on the CPU."""
    return kv_bytes(config, min(capacity(DEFAULTS, fit_budget(DEFAULTS, config)), config.context), 1)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
