"""Computes a network's loss and gradients on CPU threads, each of which takes the next rows when it is free."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from efim_lab.gate.network import EfimForCausalLM, Shape
from efim_lab.workshop.training.native.chunk import HEAD_DIM, ChunkPass
from efim_lab.workshop.training.native.products import PANEL
from efim_lab.workshop.training.native.weights import NetworkWeights
from efim_lab.workshop.training.samples.masks import sample_starts
from efim_lab.workshop.training.samples.packing import PADDING

_CHUNK = 1024  # tokens that go through the model together, unless a row is longer: their activations fit the cache


def why_unfit(shape: Shape) -> str | None:
    """Return why the kernels cannot train a model of this shape, or None if they can."""
    if shape.head_dim != HEAD_DIM:
        return f"the kernels are written for heads of {HEAD_DIM} elements, not {shape.head_dim}"
    sizes = {"width": shape.width, "feed_forward": shape.feed_forward, "vocabulary": shape.vocabulary}
    odd = ", ".join(f"{name} {size}" for name, size in sizes.items() if size % PANEL)
    return f"the kernels want sizes that are multiples of {PANEL}, unlike {odd}" if odd else None


class NativeGradients:
    """Gradients without autograd, with as many threads as torch has when this is made."""

    def __init__(self, network: EfimForCausalLM) -> None:
        self._weights = NetworkWeights(network)
        tokens, threads = max(_CHUNK, network.shape.context), torch.get_num_threads()
        self._passes = [ChunkPass(self._weights, network.shape, tokens) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads, "train", initializer=torch.set_num_threads, initargs=(1,))

    def __call__(self, rows: Tensor) -> float:
        """Set the parameters' gradients from rows [rows, length]; return the mean loss in nats per token."""
        targets = int((rows[:, 1:] != PADDING).sum())
        at_once = max(1, _CHUNK // rows.shape[1])
        # All threads take from one iterator, so that one whose core another program slows takes less. Threads
        # may share a list's iterator, but no generator.
        chunks = iter([rows[at : at + at_once] for at in range(0, len(rows), at_once)])

        def learn(own: ChunkPass) -> float:
            for total in own.totals.values():
                total.zero_()
            return sum(own.run(chunk, sample_starts(chunk), 1 / targets) for chunk in chunks)

        for packed in [self._pool.submit(weight.pack) for weight in self._weights]:
            packed.result()
        losses = list(self._pool.map(learn, self._passes))
        self._hand_over()
        return sum(losses) / targets

    def _hand_over(self) -> None:
        """Sum the threads' totals and make them, or their parts, the parameters' gradients."""
        own, *others = (chunk_pass.totals for chunk_pass in self._passes)
        for other in others:
            for weight, total in own.items():
                total += other[weight]
        for weight, total in own.items():
            weight.set_gradient(total)
