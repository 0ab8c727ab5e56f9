"""Checkpoints of a training run: one folder each, complete or absent."""

import json
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_model, save_model  # pyright: ignore[reportUnknownVariableType]

from efim_lab.gate.errors import WorkError
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import as_fp32, read_weights
from model_runtime.decoder.tensors import as_tensor

WEIGHTS, STATE, CONFIG = "model.safetensors", "run.json", "config.json"
_OPTIMIZERS = "optimizers.pt"


@dataclass(slots=True)
class RunProgress:
    """The progress of a run: steps, tokens, seconds of computing, and the position in its data (`Batches`).

    Steps and tokens continue the counts of the run that this run branched off, at `branched` tokens after `earlier`
    seconds. `fresh` are the tokens at which it went on from a snapshot, with fresh optimizer state.
    """

    step: int = 0
    tokens: int = 0
    elapsed: float = 0.0
    earlier: float = 0.0
    branched: int = 0
    fresh: list[int] = field(default_factory=list[int])
    shard: int = 0
    row: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class RunState:
    """The part of a run that a checkpoint keeps; to resume it, all `settings` except `tokens` must be the same."""

    model: torch.nn.Module
    optimizers: list[torch.optim.Optimizer]
    settings: dict[str, Any]


def save(folder: Path, run: RunState, progress: RunProgress) -> None:
    """Write folder/checkpoint-<step> unless it is there, then remove the older ones."""
    target = folder / f"checkpoint-{progress.step:07}"
    if target.exists():
        return
    partial = folder / "checkpoint.partial"
    try:
        _write(partial, run, progress)
        partial.replace(target)
    except (OSError, RuntimeError) as error:  # torch.save and safetensors raise RuntimeError when the disk is full
        shutil.rmtree(partial, ignore_errors=True)
        kept = found(folder)[-1].name if found(folder) else "no checkpoint"
        raise WorkError(f"cannot write {target} ({error}): make room and --resume; {kept} is kept") from error
    for older in found(folder)[:-1]:
        shutil.rmtree(older)


def found(folder: Path) -> list[Path]:
    """List a run's complete checkpoints, oldest first."""
    return sorted(folder.glob("checkpoint-*"))


def newest(folder: Path) -> Path:
    """Return a run's newest checkpoint; a snapshot is its own."""
    if (folder / STATE).exists():
        return folder
    if not found(folder):
        raise WorkError(f"no checkpoint in {folder}: start without --resume, or name the folder of a run")
    return found(folder)[-1]


def resume(folder: Path, run: RunState) -> RunProgress:
    """Load the newest checkpoint of `folder`, or a snapshot, into a run of the same settings."""
    source = newest(folder)
    state = read_state(source)
    progress = _load(source, run, state, set(run.settings) - {"tokens"})
    _refuse_second_rise(source, run.settings, state["settings"], progress)
    return progress


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished model instead of a run or a snapshot."""
    return (folder / CONFIG).exists() and not (folder / STATE).exists()


def finished_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a finished model in fp32, also of a compact model; ModelError if it is damaged."""
    weights = read_weights(folder, read_config(folder))
    return {name: as_tensor(as_fp32(weight)) for name, weight in weights.items()}


def branch(folder: Path, run: RunState) -> RunProgress:
    """Load the newest checkpoint of another run; the shape must be the same.

    The clock starts again, at the data's next shard.
    """
    source = newest(folder)
    at = _load(source, run, read_state(source), {"shape"})
    return replace(at, earlier=at.earlier + at.elapsed, elapsed=0.0, branched=at.tokens, shard=at.shard + 1, row=0)


def _refuse_second_rise(source: Path, wanted: dict[str, Any], before: dict[str, Any], progress: RunProgress) -> None:
    """Refuse another number of tokens once the rate has started to fall, because it would jump."""
    tokens = before.get("tokens")
    if tokens is None or tokens == wanted["tokens"]:
        return
    begun = progress.branched + (1 - before["decay"]) * tokens
    if before["decay"] and progress.tokens > begun:
        raise WorkError(
            f"{source} lies in the decay of its learning rate, which began at {begun / 1e6:g} million tokens: "
            f"resume it with --tokens {tokens / 1e6:g}, or branch off with --from into another folder"
        )


def _write(partial: Path, run: RunState, progress: RunProgress) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_model(run.model, str(partial / WEIGHTS))
    torch.save([o.state_dict() for o in run.optimizers], partial / _OPTIMIZERS)
    state = {"settings": run.settings, "progress": asdict(progress)}
    (partial / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def _load(checkpoint: Path, run: RunState, state: dict[str, Any], same: set[str]) -> RunProgress:
    """Load weights and, unless it is a snapshot, optimizers; the settings named in `same` must be the run's."""
    wanted = json.loads(json.dumps(run.settings))
    differing = sorted(name for name in same if state["settings"].get(name) != wanted[name])
    if differing:
        raise WorkError(
            f"{checkpoint} belongs to another configuration ({', '.join(differing)}): use its settings "
            "or start in another folder"
        )
    _load_weights(checkpoint, run)
    try:
        progress = RunProgress(**state["progress"])
        if not (checkpoint / _OPTIMIZERS).exists():  # a snapshot
            return replace(progress, fresh=[*progress.fresh, progress.tokens])
        states = torch.load(checkpoint / _OPTIMIZERS, weights_only=True)
        for optimizer, saved in zip(run.optimizers, states, strict=True):
            optimizer.load_state_dict(saved)
        return progress
    except Exception as error:  # whatever the libraries raise for a damaged file
        raise WorkError(f"{checkpoint} is damaged ({error}): remove it and resume again") from error


def _load_weights(folder: Path, run: RunState) -> None:
    try:
        load_model(run.model, folder / WEIGHTS)
    except Exception as error:  # whatever the library raises for a damaged file, or for one of another shape
        raise WorkError(f"{folder} is damaged ({error}): remove it and resume again") from error


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Read the settings and the progress of a checkpoint or a snapshot."""
    try:
        return cast("dict[str, Any]", json.loads((checkpoint / STATE).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise WorkError(f"{checkpoint} is damaged ({error}): remove it and resume again") from error
