"""Reports a run's progress as a bar or as lines, and logs it as JSON Lines, from which the loss is plotted."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from efim_lab.workshop.training import checkpoint

_LINE_EVERY = 50
_SMOOTHING = 0.98


class Reporter:
    """Reports each step; one JSON object per step is appended to `log` after those up to step `done`."""

    def __init__(self, log: Path, done: int) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        kept = [entry for entry in read_log(log) if entry["step"] <= done] if log.exists() else []
        write_log(log, kept)
        self._log = log.open("a", encoding="utf-8", buffering=1)
        self._average: float | None = None
        self._mark: tuple[float, float, float] | None = None
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

    def step(self, progress: checkpoint.RunProgress, loss: float, share: float) -> None:
        """Report one step's loss in nats per token; `share` is the share of the run's budget that is spent."""
        before = loss if self._average is None else self._average
        self._average = _SMOOTHING * before + (1 - _SMOOTHING) * loss
        entry = {
            "step": progress.step,
            "tokens": progress.tokens,
            "seconds": round(progress.earlier + progress.elapsed, 1),
            "loss": loss,
        }
        self._log.write(json.dumps(entry) + "\n")
        text = f"{progress.tokens / 1e6:.2f}M tokens, loss {self._average:.3f}"
        self._bar.update(self._task, completed=share, description=text)
        if self._bar.disable and progress.step % _LINE_EVERY == 0:
            print(f"step {progress.step}: {text}{self._pace(progress, share)}", flush=True)

    def _pace(self, progress: checkpoint.RunProgress, share: float) -> str:
        """Format the speed since the line before, and how long the rest of the budget takes at it."""
        here = (progress.tokens, progress.elapsed, share)
        before, self._mark = self._mark, here
        if before is None or here[1] <= before[1] or share <= before[2]:
            return ""
        tokens, seconds, spent = (now - then for now, then in zip(here, before, strict=True))
        left = (1.0 - share) * seconds / spent / 3600
        return f", {tokens / seconds:,.0f} tokens/s, {left:.1f} h left"


def read_log(log: Path) -> list[dict[str, float]]:
    """Read a run's log, one entry per step or stretch; an unfinished last line, left by a killed run, is ignored."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def thinned(entries: Sequence[Mapping[str, float]], tokens: int) -> list[dict[str, float]]:
    """Merge the entries of each stretch of `tokens`: the last one's step, tokens and seconds, and the mean loss.

    Entries weigh as many tokens as they cover, so that a thinned log can be continued and thinned again.
    """
    found: list[dict[str, float]] = []
    before, weights = 0.0, 0.0
    for entry in entries:
        weight = entry["tokens"] - before
        if found and (entry["tokens"] - 1) // tokens == (found[-1]["tokens"] - 1) // tokens:
            weights += weight
            loss = found[-1]["loss"] + (entry["loss"] - found[-1]["loss"]) * weight / weights
            found[-1] = {**entry, "loss": loss}
        else:
            weights = weight
            found.append(dict(entry))
        before = entry["tokens"]
    return found


def write_log(log: Path, entries: Sequence[Mapping[str, float]]) -> None:
    """Write a log, one JSON object on each line."""
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8", newline="\n")


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
