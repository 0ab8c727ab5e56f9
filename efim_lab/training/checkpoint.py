"""Checkpoints of a training run: one folder each, complete or absent."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_model, save_model  # pyright: ignore[reportUnknownVariableType]

from efim_lab.errors import WorkError


@dataclass(slots=True)
class RunProgress:
    """The progress of a run: steps, tokens, seconds, and the position in its data (`Batches`).

    Steps and tokens continue those of the run that this one started from; `earlier` is the seconds which that took.
    """

    step: int = 0
    tokens: int = 0
    elapsed: float = 0.0
    earlier: float = 0.0
    shard: int = 0
    row: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class RunState:
    """What a checkpoint keeps of a run; `settings` must be the same when it is resumed."""

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


def resume(folder: Path, run: RunState) -> RunProgress:
    """Load the newest checkpoint of `folder` into a run of the same settings."""
    if not found(folder):
        raise WorkError(f"no checkpoint in {folder}: start without --resume")
    newest = found(folder)[-1]
    return _load(newest, run, _read_state(newest), set(run.settings))


def branch(folder: Path, run: RunState) -> RunProgress:
    """Load the newest checkpoint of another run of the same shape; restart the clock at the data's next shard."""
    if not found(folder):
        raise WorkError(f"no checkpoint in {folder}: name a run's folder")
    newest = found(folder)[-1]
    at = _load(newest, run, _read_state(newest), {"shape"})
    return RunProgress(step=at.step, tokens=at.tokens, earlier=at.earlier + at.elapsed, shard=at.shard + 1)


def _write(partial: Path, run: RunState, progress: RunProgress) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_model(run.model, str(partial / "model.safetensors"))
    torch.save([o.state_dict() for o in run.optimizers], partial / "optimizers.pt")
    state = {"settings": run.settings, "progress": asdict(progress)}
    (partial / "run.json").write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def _load(checkpoint: Path, run: RunState, state: dict[str, Any], same: set[str]) -> RunProgress:
    """Load weights and optimizers; the settings named in `same` must be those of the run."""
    wanted = json.loads(json.dumps(run.settings))
    differing = sorted(name for name in same if state["settings"].get(name) != wanted[name])
    if differing:
        raise WorkError(
            f"{checkpoint} belongs to another configuration ({', '.join(differing)}): use its settings "
            "or start in another folder"
        )
    try:
        load_model(run.model, checkpoint / "model.safetensors")
        states = torch.load(checkpoint / "optimizers.pt", weights_only=True)
        for optimizer, saved in zip(run.optimizers, states, strict=True):
            optimizer.load_state_dict(saved)
        return RunProgress(**state["progress"])
    except Exception as error:  # whatever the libraries raise for a damaged file
        raise WorkError(f"{checkpoint} is damaged ({error}): remove it and resume again") from error


def _read_state(checkpoint: Path) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads((checkpoint / "run.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise WorkError(f"{checkpoint} is damaged ({error}): remove it and resume again") from error
