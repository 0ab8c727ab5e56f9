"""Writes what must survive a change of machine: weights in half precision, the place in the data, and a card."""

import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_model  # pyright: ignore[reportUnknownVariableType]

from efim_lab.gate import network
from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training import checkpoint
from efim_lab.workshop.training.corpus.corpus import MANIFEST, read_manifest
from efim_lab.workshop.training.export import save_halves
from efim_lab.workshop.training.report import plot, read_log, thinned, write_log
from efim_lab.workshop.training.run.measurement import MEASUREMENTS, read_measurements
from efim_lab.workshop.training.run.run_card import RunSummary, run_card

LOG = "log.jsonl"
THINNED = 500_000  # tokens of training to an entry of the log


def write_snapshot(run: Path, folder: Path) -> Path:
    """Write a snapshot of a run's newest checkpoint; an older snapshot in the folder is replaced."""
    source = checkpoint.newest(run)
    state = checkpoint.read_state(source)
    partial = folder / "partial"
    try:
        partial.mkdir(parents=True, exist_ok=True)
        _write(run, source, state, partial)
        for path in partial.iterdir():
            path.replace(folder / path.name)
        partial.rmdir()
    except OSError as error:
        raise WorkError(f"cannot write {folder} ({error}): make room there, or name another folder") from error
    return folder


def copy_history(start: Path, run: Path) -> None:
    """Copy the log and the measurements of the run or snapshot that a run starts from."""
    run.mkdir(parents=True, exist_ok=True)
    for name in (LOG, MEASUREMENTS):
        if (start / name).exists():
            shutil.copy(start / name, run)


def _write(run: Path, source: Path, state: dict[str, Any], folder: Path) -> None:
    progress = checkpoint.RunProgress(**state["progress"])
    shape = network.Shape(**state["settings"]["shape"])
    model = network.build(shape)
    load_model(model, source / checkpoint.WEIGHTS)
    save_halves(model, folder / checkpoint.WEIGHTS)
    shutil.copy(source / checkpoint.STATE, folder)
    entries = [entry for entry in read_log(run / LOG) if entry["step"] <= progress.step]
    write_log(folder / LOG, thinned(entries, THINNED))
    plot(folder / LOG, folder / "loss.png")
    if (run / MEASUREMENTS).exists():
        shutil.copy(run / MEASUREMENTS, folder)
    summary = RunSummary(
        settings=state["settings"],
        progress=progress,
        parameters=sum(p.numel() for p in model.parameters()),
        manifest=read_manifest(run / MANIFEST),
        log=read_log(folder / LOG),
        measurements=read_measurements(run),
    )
    (folder / "README.md").write_text(run_card(summary), encoding="utf-8", newline="\n")
