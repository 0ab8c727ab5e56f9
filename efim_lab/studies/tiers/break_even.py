"""From which link on it is faster to fetch a token's keys and values than to compute them, by the size of a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from model_runtime.checkpoint.config import read_config
from model_runtime.kv.codec import Form, KvCodec
from model_runtime.kv.layout import KvLayout

FORMS = ("exact", "int8")
BLOCK_TOKENS = 16  # as the store has them
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


class ModelCosts(NamedTuple):
    """What a token of a prompt costs: seconds to compute, and bytes on the wire as it was computed and in int8."""

    model: str
    seconds: float
    exact: int
    int8: int

    @classmethod
    def of(cls, name: str, folder: Path, seconds: float) -> ModelCosts:
        """Return the costs of the model in a folder, given its seconds for a token."""
        codec = KvCodec(KvLayout.of(read_config(folder)), BLOCK_TOKENS, None, Form.RAW)
        sizes = (codec.size(form) // BLOCK_TOKENS for form in (Form.RAW, Form.INT8))
        return cls(name, seconds, *sizes)

    def bytes_of(self, form: str) -> int:
        """Return the bytes of a token in a form."""
        return self.exact if form == FORMS[0] else self.int8

    def even_at(self, form: str) -> float:
        """Return the gigabits a second of the link over which fetching a token takes as long as computing it."""
        return 8e-9 * self.bytes_of(form) / self.seconds


def ratios(costs: Sequence[ModelCosts], links: Sequence[float]) -> list[list[float]]:
    """Return for each model and form, over each link in gigabits a second, fetching as a share of computing."""
    return [[cost.even_at(form) / speed for speed in links] for cost in costs for form in FORMS]


def draw(costs: Sequence[ModelCosts], path: Path) -> None:
    """Draw as PNG the time to fetch a token as a share of computing it, by the link."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    axes: Any  # its types are partly unknown
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    links = (0.01, 0.1, 1.0, 10.0, 100.0)
    for cost, color in zip(costs, COLORS, strict=False):
        for form, style in zip(FORMS, ("-", "--"), strict=True):
            shares = [cost.even_at(form) / speed for speed in links]
            axes.loglog(links, shares, style, color=color, label=f"{cost.model}, {form}")
    axes.axhline(1.0, color="#666666", linewidth=0.8)
    axes.set_xlabel("link, Gbit/s")
    axes.set_ylabel("seconds to fetch a token / to compute it")
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)  # pyright: ignore[reportUnknownMemberType]
    pyplot.close(figure)
