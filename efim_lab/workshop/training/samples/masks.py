"""Says what each token of a row may see: its own sample, and in prompts with excerpts of other files less."""

import torch
from torch import Tensor

from efim_lab.workshop.training.samples import bpe


def sample_starts(rows: Tensor) -> Tensor:
    """Return for each place of rows [rows, length] the first place that it may see, int32 of the same shape.

    A sample begins after the token that ends another, or at a prefix marker. Attention over whole rows learns less
    from a token (docs/benchmarks/prompts.md), and a prompt has nothing before it either. In a sample that begins with
    excerpts, each of these and the window after them sees itself alone, as isolated keys and values need it
    (TurboRAG, arXiv 2410.07590); from the middle marker on everything is seen. A sample that begins with the name of
    its repository is seen whole.
    """
    places = torch.arange(rows.shape[1], device=rows.device).expand_as(rows)
    is_excerpt, is_window = rows == bpe.ID[bpe.FILE], rows == bpe.ID[bpe.PREFIX]
    begins = places == 0
    begins[:, 1:] |= rows[:, :-1] == bpe.ID[bpe.END]
    sample = _latest(places, begins)
    opening = rows.gather(1, sample)
    is_whole = opening == bpe.ID[bpe.REPOSITORY]
    part = _latest(places, begins | is_excerpt | is_window)
    middle = _latest(places, rows == bpe.ID[bpe.MIDDLE])
    sees_excerpts = (opening == bpe.ID[bpe.FILE]) & (middle > sample)
    return torch.where(is_whole | sees_excerpts, sample, part).to(torch.int32)


def _latest(places: Tensor, marked: Tensor) -> Tensor:
    """Return the latest marked place up to each place, 0 if there is none."""
    return (places * marked).cummax(dim=1).values
