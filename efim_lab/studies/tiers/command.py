"""`bench tiers`: two machines of a team open the same file, one after the other, over links to their cache."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from efim_lab.gate.errors import WorkError
from efim_lab.gate.git import run_git
from efim_lab.studies.prefill.costs import Link
from efim_lab.studies.tiers.break_even import FORMS, ModelCosts, draw, ratios
from efim_lab.studies.tiers.link import relayed
from efim_lab.studies.tiers.machine import FirstCompletion, first_completion
from model_runtime.checkpoint.hub_names import model_folder

DELAYS = (1e-3, 20e-3)  # seconds there and back
STARTING = 10.0  # seconds that a server may take to start
WIDTH = 110  # of tables
WHO = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


class TierBench(NamedTuple):
    """What to measure: the file that is opened, its prompt's tokens, how often, over links of which speeds."""

    file: Path
    tokens: int
    repeats: int
    gigabits: Sequence[float]


class Row(NamedTuple):
    """Medians of a model's first completion in a file, cold and with what another machine computed over a link."""

    model: str
    gigabits: float
    delay_ms: float
    form: str
    cold_seconds: float
    warm_seconds: float
    fetched: int
    recomputed: int


def run_tiers(models: Sequence[str], bench: TierBench, url: str, plot: Path | None) -> None:
    """Measure each model over each link; print tables and, as the last line, JSON. Raises WorkError, ModelError."""
    rows, costs = list[Row](), list[ModelCosts]()
    with TemporaryDirectory() as folder, _server(url) as (host, port):
        file = _committed(bench.file, Path(folder) / "clone")
        for name in models:
            team = _Team(Path(folder), name, bench, file, f"redis://{host}:{port}")
            for form in FORMS:
                rows += team.measure(form)
            costs.append(team.costs())
    _show(rows)
    _show_ratios(costs, bench.gigabits)
    if plot:
        draw(costs, plot)
    print(json.dumps({"rows": [row._asdict() for row in rows], "models": [each._asdict() for each in costs]}))


class _Team:
    """A model's machines: one with all keys and values computed, and a new machine for each measurement."""

    def __init__(self, folder: Path, model: str, bench: TierBench, file: Path, url: str) -> None:
        self._folder, self._model, self._bench, self._file, self._url = folder, model, bench, file, url
        self._key = folder / "key"
        self._key.write_text(secrets.token_hex(32))
        self._key.chmod(0o600)
        self._number = 0
        text = file.read_text("utf-8")
        self._cursor = text.rindex(
            "\n", 0, min(len(text), _characters(model_folder(model), text, _head(bench.tokens)))
        )
        self._colds = list[FirstCompletion]()

    def measure(self, form: str) -> list[Row]:
        """Fill the cache from one machine, then open the file on new ones, without and with it, in turns."""
        first = self._opened(form, self._url, save=True)
        rows = list[Row]()
        parts = urlsplit(self._url)
        for gigabits, delay in product(self._bench.gigabits, DELAYS):
            colds, warms = list[FirstCompletion](), list[FirstCompletion]()
            with relayed(Link(gigabits, delay / 2), parts.hostname or "", parts.port or 0) as port:
                for _ in range(self._bench.repeats):
                    colds.append(self._opened(form, "", save=False))
                    warms.append(self._opened(form, f"redis://127.0.0.1:{port}", save=False))
            if form == "exact" and {each.text for each in (first, *colds, *warms)} != {first.text}:
                raise WorkError(
                    "a machine answers otherwise than the machine whose keys and values it fetched: report this"
                )
            self._colds += colds
            cold, warm = (median(each.seconds for each in side) for side in (colds, warms))
            tokens = [round(median(each)) for each in zip(*((w.fetched, w.recomputed) for w in warms), strict=True)]
            rows.append(Row(self._model or "embedded", gigabits, delay * 1e3, form, cold, warm, tokens[0], tokens[1]))
        return rows

    def costs(self) -> ModelCosts:
        """Return what a token costs to compute, as measured, and its bytes."""
        seconds = median(each.seconds / each.tokens for each in self._colds)
        return ModelCosts.of(self._model or "embedded", model_folder(self._model), seconds)

    def _opened(self, form: str, url: str, save: bool) -> FirstCompletion:
        self._number += 1
        settings: dict[str, Any] = {
            "model": self._model,
            "head_tokens": _head(self._bench.tokens),
            "cache_folder": str(self._folder / f"machine-{self._number}"),
            "approximations": ["int8_on_disk"] if form == "int8" else [],
        }
        if url:
            settings["shared_tier"] = {"url": url, "key_file": str(self._key)}
        found = first_completion(settings, self._file, self._cursor, save)
        shutil.rmtree(settings["cache_folder"], ignore_errors=True)
        return found


def _head(tokens: int) -> int:
    """Return how many of a prompt's tokens stand before the cursor; a quarter as many follow it."""
    return tokens * 4 // 5


def _characters(folder: Path, text: str, tokens: int) -> int:
    """Return about how many characters of a text `tokens` tokens are."""
    from model_runtime.prompt.tokenizer import Tokenizer

    ends, total = 0, 0
    for piece, count in Tokenizer(folder / "tokenizer.json").pieces(text):
        if total + count > tokens:
            break
        ends, total = ends + len(piece), total + count
    return ends


def _committed(file: Path, folder: Path) -> Path:
    """Return a copy of a file that is committed in a new repository."""
    folder.mkdir()
    copy = Path(shutil.copy(file, folder / file.name))
    for words in (["init"], ["add", copy.name], [*WHO, "commit", "--message=one file"]):
        run_git(folder, *words)
    return copy


@contextmanager
def _server(url: str) -> Generator[tuple[str, int]]:
    """Yield host and port of the server at a url or, without one, of a redis-server of our own; raises WorkError."""
    if url:
        parts = urlsplit(url)
        yield parts.hostname or "", parts.port or 6379
        return
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        raise WorkError("neither valkey-server nor redis-server is installed: install one, or name a server by --url")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            yield "127.0.0.1", port
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    end = time.monotonic() + STARTING
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                raise WorkError(f"the server that was started on port {port} does not answer: try again") from None
            time.sleep(0.02)
        else:
            return


def _show(rows: Sequence[Row]) -> None:
    table = Table(title="first completion in a file, on a machine that has not computed it")
    for column in ("model", "Gbit/s", "ms", "form", "cold, s", "shared cache, s", "share", "fetched", "computed"):
        table.add_column(column, justify="right")
    for row in rows:
        link = f"{row.gigabits:g}", f"{row.delay_ms:g}"
        seconds = f"{row.cold_seconds:.2f}", f"{row.warm_seconds:.2f}", f"{row.warm_seconds / row.cold_seconds:.2f}"
        table.add_row(row.model, *link, row.form, *seconds, str(row.fetched), str(row.recomputed))
    Console(width=WIDTH).print(table)


def _show_ratios(costs: Sequence[ModelCosts], speeds: Sequence[float]) -> None:
    shown = Table(title="fetching a token as a share of computing it, without delays")
    links = [f"at {gigabits:g} Gbit/s" for gigabits in speeds]
    for column in ("model", "on the wire", "bytes", "us to compute", *links, "even at Gbit/s"):
        shown.add_column(column, justify="right")
    for (cost, form), shares in zip(
        ((c, f) for c in costs for f in ("exact", "int8")), ratios(costs, speeds), strict=True
    ):
        cells = [f"{share:.2f}" for share in shares]
        even = f"{cost.even_at(form):.2g}"
        shown.add_row(cost.model, form, f"{cost.bytes_of(form):,}", f"{cost.seconds * 1e6:,.0f}", *cells, even)
    Console(width=WIDTH).print(shown)
