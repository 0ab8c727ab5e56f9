"""Narrow passes, which answers wait for: each width is recorded once as a CUDA graph and then replayed.

A graph reads from and writes to fixed addresses. Whatever changes from pass to pass (tokens, arenas, their lengths)
is therefore data on the device, brought there by one copy, and the same kernels serve every arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from model_runtime.decoder.any_decoder import TopTokens
from model_runtime.decoder.gpu.attention import Bias, bias_of_rows, update_bias
from model_runtime.decoder.gpu.slab import WIDTHS, Slab
from model_runtime.ids import Ids

MOST_LIKELIEST = 256  # tokens of a list: nearly always more than are likely
LISTED_ROWS = 16  # rows of the widest pass with lists: a decode step with the longest draft
WARM_UPS = 2  # passes before recording: the first compiles kernels, which no recording may


class TopTokensTable:
    """The likeliest tokens after each of `rows` rows, as int32: n ids, then the bits of n logits and of their total.

    The table is written on the device, where a pass can be recorded with it, and fetched by one copy.
    """

    def __init__(self, rows: int, choices: int, device: torch.device) -> None:
        """Allocate the table here and there; the first `choices` tokens of the vocabulary can be chosen."""
        self._choices, self._most = choices, min(MOST_LIKELIEST, choices)
        shape = (rows, 2 * self._most + 1)
        self._device = torch.zeros(shape, dtype=torch.int32, device=device)
        self._host = torch.zeros(shape, dtype=torch.int32, pin_memory=device.type == "cuda")

    def write(self, logits: torch.Tensor) -> None:
        """Choose by fp32 logits [rows, vocab]."""
        scores = logits[:, : self._choices]
        best, ids = scores.topk(self._most, dim=-1)
        total = scores.logsumexp(dim=-1, keepdim=True)
        self._device.copy_(torch.cat((ids.int(), best.view(torch.int32), total.view(torch.int32)), dim=-1))

    def fetch(self) -> None:
        """Start to copy the table to the host."""
        self._host.copy_(self._device, non_blocking=True)

    def read(self, row: int) -> TopTokens:
        """Return a row of the table that was fetched; the copy must be over."""
        words, n = self._host[row].numpy(), self._most
        ids, logits, total = words[:n], words[n:-1].view(np.float32), words[-1:].view(np.float32)
        order = np.lexsort((ids, -logits))
        return TopTokens(ids[order], logits[order], float(total[0]), self._choices)


class SlabRows(NamedTuple):
    """Where rows are in one kind of layers of a slab: the row that each writes, and the `lengths` that it sees.

    These lie from its own of `starts` on. All int32 [rows].
    """

    at: Ids
    starts: Ids
    lengths: Ids


class PassInputs(NamedTuple):
    """The inputs of a pass: tokens and their positions, and for each kind of layers the rows and their visible keys.

    All int32 [rows] on the device, in the order of the rows.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    at: Sequence[torch.Tensor]
    bias: Sequence[Bias]


Step = Callable[[PassInputs], torch.Tensor]  # logits [rows, vocab]
Replay = Callable[[], torch.Tensor]
Record = Callable[[Replay], Replay]


class RecordedPass:
    """A recorded pass of `rows` single rows, with its inputs at fixed addresses."""

    def __init__(self, rows: int, slab: Slab, step: Step, record: Record, choices: int) -> None:
        """Record the pass, which writes to the slab's spare rows meanwhile; `choices` tokens can be chosen."""
        self._slab, device = slab, slab.k.device
        each = 3 * rows + 1  # at, lengths and starts of a kind of layers; these end with the number of its rows
        size, pinned = 2 * rows + len(slab.kinds) * each, device.type == "cuda"
        self._host = torch.zeros(size, dtype=torch.int32, pin_memory=pinned)
        self._inputs = torch.zeros_like(self._host, device=device)
        (self._ids, self._positions), hosts = _tables(self._host.numpy(), rows, each)
        (ids, positions), tables = _tables(self._inputs, rows, each)
        self._rows = [(table[: 2 * rows].reshape(2, rows), table[2 * rows :]) for table in hosts]
        for (_, starts), kind in zip(self._rows, slab.kinds, strict=True):
            starts[-1] = kind.rows
        self._bias = [
            bias_of_rows(table[2 * rows :], table[rows : 2 * rows], kind.longest, kind.rows)
            for table, kind in zip(tables, slab.kinds, strict=True)
        ]
        nothing = np.zeros(0, dtype=np.int32)
        self._fill(nothing, nothing, [SlabRows(nothing, nothing, nothing)] * len(slab.kinds))
        inputs = PassInputs(ids, positions, [table[:rows] for table in tables], self._bias)
        self.likeliest = likeliest = TopTokensTable(rows, choices, device) if rows <= LISTED_ROWS else None

        def listed() -> torch.Tensor:
            logits = step(inputs)
            if likeliest is not None:
                likeliest.write(logits)
            return logits

        self._replay = record(listed)

    def run(self, ids: Ids, positions: Ids, kinds: Sequence[SlabRows]) -> torch.Tensor:
        """Return the logits after each row until the next pass; `kinds` say where the rows are in each."""
        self._fill(ids, positions, kinds)
        logits = self._replay()[: len(ids)]
        if self.likeliest is not None:
            self.likeliest.fetch()
        return logits

    def _fill(self, ids: Ids, positions: Ids, kinds: Sequence[SlabRows]) -> None:
        n = len(ids)
        self._ids[:n], self._ids[n:] = ids, 0
        self._positions[:n], self._positions[n:] = positions, 0
        for (table, starts), bias, rows, kind in zip(self._rows, self._bias, kinds, self._slab.kinds, strict=True):
            at, lengths = table
            at[:n], at[n:] = rows.at, kind.spare + np.arange(n, len(at))
            lengths[:n], lengths[n:] = rows.lengths, 1
            starts[:n], starts[n:-1] = rows.starts, at[n:]
            update_bias(bias, starts[:-1], lengths)
        self._inputs.copy_(self._host, non_blocking=True)


def _tables(numbers: Any, rows: int, each: int) -> tuple[Any, list[Any]]:
    """Return views of the ids and positions [2, rows], and of each kind's numbers."""
    kinds = [numbers[at : at + each] for at in range(2 * rows, len(numbers), each)]
    return numbers[: 2 * rows].reshape(2, rows), kinds


class RecordedPasses:
    """Recorded passes for every number of rows up to the widest; `likeliest` is the table of the last one, if any."""

    def __init__(self, slab: Slab, step: Step, record: Record, choices: int) -> None:
        """Record every width, the narrowest first, so that kernels are compiled just for one row and for several."""
        self.likeliest: TopTokensTable | None = None
        self._widths = {rows: RecordedPass(rows, slab, step, record, choices) for rows in WIDTHS}

    def run(self, ids: Ids, positions: Ids, kinds: Sequence[SlabRows]) -> torch.Tensor:
        """Return the logits [rows, vocab] after each row, valid until the next pass. All arrays are [rows]."""
        recorded = self._widths[min(rows for rows in WIDTHS if rows >= len(ids))]
        self.likeliest = recorded.likeliest
        return recorded.run(ids, positions, kinds)


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
