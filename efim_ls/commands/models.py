"""`efim-ls models`: lists known and downloaded models, what fits, and what keys cost. Works offline."""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from efim_ls.completion.models.open import capacity, fit_budget
from efim_ls.languages.table import listed, names_of
from efim_ls.memory_shares import share_out
from efim_ls.settings import DEFAULTS
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED, embedded_models
from model_runtime.checkpoint.gguf.found import FoundFile
from model_runtime.checkpoint.gguf.header import read_header
from model_runtime.checkpoint.hub_names import CachedModel, cached_models, gguf_models
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
from model_runtime.loading.pass_times import KeyCosts, PassTimes, duration, key_costs, measure_passes
from model_runtime.loading.threads import LARGE
from model_runtime.loading.weight_format import choose_method, supported_formats
from model_runtime.machine import available_memory, memory_bandwidth
from model_runtime.prompt.template import find_template

# Licences and contexts are in --json only: 80 columns have no room for them.
NUMBERS = ("size", "disk", "a\ntypical\nkey", "a cold\nplace")
FIGURES_WIDTH = 41  # characters of a row after the name
OWN_LICENCE = "Apache-2.0"  # of the models of this package


@dataclass(frozen=True)
class Machine:
    """The machine: free bytes of memory, bytes per second that one thread reads, and usable weight formats."""

    free: int
    bandwidth: float
    formats: list[Format]
    kv: int  # bytes of KV arenas
    row: float | None  # milliseconds of a row of a prompt for each parameter, None if nothing can be computed here


@dataclass(frozen=True)
class ModelRow:
    """A model; None is unknown. `fits`: formats on the CPU; `milliseconds`: of a typical key and of a cold place.

    `setting` is the value of the setting model that chooses it; `current`: this is the model in use. A model that
    does not fit whole may fit `in_part`, with the rest on disk. A GGUF file has a `quantization`.
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

    @property
    def answers_second(self) -> bool:
        """Whether it is so large that the embedded models answer before it."""
        return (self.parameters or 0) >= LARGE


class NoCosts(NamedTuple):
    """What a model costs that does not fit."""

    typical: None = None
    cold: None = None


def show(as_json: bool, current: str = "") -> int:
    """Print a table, or one JSON object; `current` is the value of the setting model."""
    times = _embedded_times()
    machine = _machine(times)
    rows = [*_rows(machine, times, current)]
    if as_json:
        print(json.dumps({"machine": asdict(machine), "models": [_as_json(row) for row in rows]}))
    else:
        console = Console()
        console.print(_table(machine, rows, console.width))
        for row in rows:
            if row.problem:
                console.print(f"{_shown_name(row)} cannot be used: {row.problem}", markup=False, highlight=False)
    return 0


def _as_json(row: ModelRow) -> dict[str, object]:
    return {**asdict(row), "answers_second": row.answers_second}


def _embedded_times() -> PassTimes | None:
    """Measure the passes of the embedded model, which takes some tenths of a second; None if it cannot run here."""
    config = read_config(EMBEDDED)
    try:
        way, _ = choose_method(config, "auto")
    except ModelError:
        return None
    return measure_passes(config, [way], 1)[way]


def _machine(times: PassTimes | None) -> Machine:
    config = read_config(EMBEDDED)
    return Machine(
        available_memory(),
        memory_bandwidth(),
        [*supported_formats(config)],
        share_out(DEFAULTS.memory_mib).arenas << 20,
        None if times is None else times.row / _computed(model_size(config)),
    )


def _computed(size: ModelSize) -> int:
    """Return the parameters that a row of a prompt meets: all but embedding or head, and idle experts."""
    return size.parameters - size.matrix - size.idle


def _rows(machine: Machine, times: PassTimes | None, current: str) -> Iterator[ModelRow]:
    """Yield the models on this disk, then the others, the quickest first; `times` are the embedded model's passes."""
    here = cached_models()
    for embedded, languages in embedded_models().items():
        name = f"embedded, {listed(names_of(languages))}"
        model = CachedModel(name, "", (), embedded, _size(embedded))
        yield _on_disk(machine, model, "", current, times if embedded in SHIPPED.values() else None)
    folder = Path(os.path.expanduser(current))
    if current and folder.is_dir():
        yield _on_disk(machine, CachedModel(current, "", (), folder, _size(folder)), current, current)
    yield from (_on_disk(machine, each, each.name, current) for each in here)
    files = gguf_models()
    if current and folder.is_file() and folder not in {each.path for each in files}:
        files.append(FoundFile(current, folder))
    yield from (_in_gguf(machine, each, each.path == folder) for each in files)
    names = {each.name for each in here}
    published = [_published(machine, each, current) for each in KNOWN_MODELS if each.name not in names]
    yield from sorted(published, key=lambda row: math.inf if row.milliseconds is None else row.milliseconds)


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
    """Return the cost of keys, by the time to read a token's weights, and of a cold place, by the embedded one's."""
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


def _table(machine: Machine, rows: list[ModelRow], width: int) -> Table:
    title = f"efim-ls models: {machine.free / 2**30:.1f} GiB of memory free, one thread reads "
    title += f"{machine.bandwidth / 1e9:.0f} GB/s"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_edge=False, padding=0)
    table.add_column("model", no_wrap=True)  # _broken has wrapped long names
    for name in NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("fits as")
    table.caption = "a typical key: half of the keys take no more. a cold place: its first key, where nothing was "
    table.caption += "computed ahead. ~: estimated; the embedded model is measured now. Before a model of "
    table.caption += f"{LARGE / 1e6:.0f}M or more the embedded ones answer, and the surer answer is shown"
    table.caption_justify = "left"
    for row in rows:
        table.add_row(*_cells(row, width - FIGURES_WIDTH))
    return table


def _cells(row: ModelRow, room: int) -> tuple[str, ...]:
    """Return a row of the table, with lines of at most `room` characters in the model's name."""
    fits = [*row.fits, *(f"{form} (GPU)" for form in row.fits_gpu)]
    if row.in_part:
        fits.append(f"{row.in_part} (in part)")
    costs = (row.milliseconds, row.cold_milliseconds)
    name = _shown_name(row)
    return (
        escape(name if len(name) <= room else _broken(name, room)),
        "" if row.parameters is None else _size_of(row.parameters),
        "" if row.bytes_on_disk is None else f"{row.bytes_on_disk / 1e9:.2f}G",
        *("" if ms is None else f"{'' if row.measured else '~'}{duration(ms)}" for ms in costs),
        "[red]cannot be used[/]" if row.problem else " ".join(fits) or "too large",
    )


def _shown_name(row: ModelRow) -> str:
    name = f"{row.name}@{row.revision[:7]}" if row.revision else row.name
    return f"{name} ({row.quantization})" if row.quantization else name


def _size_of(parameters: int) -> str:
    if parameters < 995e6:
        return f"{parameters / 1e6:.0f}M"
    billions = parameters / 1e9
    return f"{billions:.{int(billions < 9.95)}f}B"


def _broken(name: str, room: int) -> str:
    """Break a name into lines, if possible after its owner or at a hyphen."""
    return textwrap.fill(name.replace("/", "/ "), max(room, 2), subsequent_indent=" ").replace("/ ", "/")
