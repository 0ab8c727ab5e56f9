"""Reports a run's progress as a bar or as lines, and logs it as JSON Lines, from which the loss is plotted."""

import json
import sys
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from efim_lab.training import checkpoint

_LINE_EVERY = 50
_SMOOTHING = 0.98


class Reporter:
    """Reports each step; one JSON object per step is appended to `log` after those up to step `done`."""

    def __init__(self, log: Path, done: int) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        kept = [entry for entry in read_log(log) if entry["step"] <= done] if log.exists() else []
        log.write_text("".join(json.dumps(entry) + "\n" for entry in kept), encoding="utf-8")
        self._log = log.open("a", encoding="utf-8", buffering=1)
        self._average: float | None = None
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(file=sys.stdout), disable=not sys.stdout.isatty())
        self._task = self._bar.add_task("compiling", total=1.0)

    def __enter__(self) -> "Reporter":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        self._log.close()

    def step(self, progress: checkpoint.RunProgress, loss: float, seconds: float) -> None:
        """Report one step's loss in nats per token; `seconds` is the time budget of the run."""
        before = loss if self._average is None else self._average
        self._average = _SMOOTHING * before + (1 - _SMOOTHING) * loss
        entry = {
            "step": progress.step,
            "tokens": progress.tokens,
            "seconds": round(progress.elapsed, 1),
            "loss": loss,
        }
        self._log.write(json.dumps(entry) + "\n")
        text = f"{progress.tokens / 1e6:.2f}M tokens, loss {self._average:.3f}"
        self._bar.update(self._task, completed=progress.elapsed / seconds, description=text)
        if self._bar.disable and progress.step % _LINE_EVERY == 0:
            left = max(0.0, seconds - progress.elapsed) / 60
            print(f"step {progress.step}: {text}, {left:.1f} min left", flush=True)


def read_log(log: Path) -> list[dict[str, float]]:
    """Read a run's log, one entry per step; an unfinished last line, left by a killed run, is ignored."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def plot(log: Path, image: Path) -> None:
    """Plot a run's loss in nats per token over its tokens, as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    entries = read_log(log)
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    tokens, losses = [e["tokens"] / 1e6 for e in entries], [e["loss"] for e in entries]
    axes.plot(tokens, losses, linewidth=0.6)  # pyright: ignore[reportUnknownMemberType]
    axes.set(xlabel="million tokens", ylabel="loss (nats per token)", ylim=(0, 8))
    figure.savefig(image, dpi=100)  # pyright: ignore[reportUnknownMemberType]
    pyplot.close(figure)
