"""Narrow passes, which answers wait for: each width is recorded once as a CUDA graph and then replayed.

A graph reads from and writes to fixed addresses. Whatever changes from pass to pass (tokens, arenas, their lengths)
is therefore data on the device, brought there by one copy, and the same kernels serve every arena.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from model_runtime.decoder.gpu.biases import Bias, bias_of_rows, update_bias
from model_runtime.decoder.gpu.slab import WIDTHS, Slab
from model_runtime.decoder.gpu.top_tokens import LISTED_ROWS, TopTokensTable
from model_runtime.ids import Ids

WARM_UPS = 2  # passes before recording: the first compiles kernels, which no recording may


class PassInputs(NamedTuple):
    """The inputs of a pass: tokens, their positions, the slab rows that they are written to, and what they see.

    All int32 [rows] on the device, in the order of the rows.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    at: torch.Tensor
    bias: Bias


Step = Callable[[PassInputs], torch.Tensor]  # logits [rows, vocab]
Replay = Callable[[], torch.Tensor]
Record = Callable[[Replay], Replay]


class RecordedPass:
    """A recorded pass of `rows` single rows, with its inputs at fixed addresses."""

    def __init__(self, rows: int, slab: Slab, step: Step, record: Record, choices: int) -> None:
        """Record the pass, which writes to the slab's spare rows meanwhile; `choices` tokens can be chosen."""
        self._slab = slab
        device = slab.k.device
        self._host = torch.zeros(5 * rows + 1, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._host[-1] = slab.rows
        self._table = self._host.numpy()[:-1].reshape(5, rows)  # ids, positions, at, lengths, starts
        self._inputs = torch.zeros_like(self._host, device=device)
        table, starts = self._inputs[:-1].view(5, rows), self._inputs[4 * rows :]
        self._bias = bias_of_rows(starts, table[3], slab.longest, slab.rows)
        nothing = np.zeros(0, dtype=np.int32)
        self._fill(nothing, nothing, nothing, nothing)
        inputs = PassInputs(table[0], table[1], table[2], self._bias)
        self.likeliest = likeliest = TopTokensTable(rows, choices, device) if rows <= LISTED_ROWS else None

        def listed() -> torch.Tensor:
            logits = step(inputs)
            if likeliest is not None:
                likeliest.write(logits)
            return logits

        self._replay = record(listed)

    def run(self, ids: Ids, positions: Ids, firsts: Ids, begins: Ids) -> torch.Tensor:
        """Return the logits after each row until the next pass; `firsts` are the arenas' first slab rows.

        Each row attends to those of its arena from its own of `begins` up to its position.
        """
        self._fill(ids, positions, firsts, begins)
        logits = self._replay()[: len(ids)]
        if self.likeliest is not None:
            self.likeliest.fetch()
        return logits

    def _fill(self, ids: Ids, positions: Ids, firsts: Ids, begins: Ids) -> None:
        n, (tokens, places, at, lengths, starts) = len(ids), self._table
        tokens[:n], tokens[n:] = ids, 0
        places[:n], places[n:] = positions, 0
        starts[:n], starts[n:] = firsts, self._slab.spare + np.arange(n, len(starts))
        np.add(starts, places, out=at)
        np.add(places, 1, out=lengths)
        starts[:n] += begins
        lengths[:n] -= begins
        update_bias(self._bias, starts, lengths)
        self._inputs.copy_(self._host, non_blocking=True)


class RecordedPasses:
    """Recorded passes for every number of rows up to the widest; `likeliest` is the table of the last one, if any."""

    def __init__(self, slab: Slab, step: Step, record: Record, choices: int) -> None:
        """Record every width, the narrowest first, so that kernels are compiled just for one row and for several."""
        self.likeliest: TopTokensTable | None = None
        self._widths = {rows: RecordedPass(rows, slab, step, record, choices) for rows in WIDTHS}

    def run(self, ids: Ids, positions: Ids, firsts: Ids, begins: Ids) -> torch.Tensor:
        """Return the logits [rows, vocab] after each row, valid until the next pass. All arguments are [rows]."""
        recorded = self._widths[min(rows for rows in WIDTHS if rows >= len(ids))]
        self.likeliest = recorded.likeliest
        return recorded.run(ids, positions, firsts, begins)


def unrecorded(step: Replay) -> Replay:
    """Return the step itself, which is then computed each time."""
    return step


def graph_recorder() -> Record:
    """Return a function that records steps as CUDA graphs, which share the memory of their temporary tensors."""
    pool = torch.cuda.graph_pool_handle()

    def record(step: Replay) -> Replay:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            logits = step()

        def replay() -> torch.Tensor:
            graph.replay()
            return logits

        return replay

    return record
