"""Decides which experts stay in memory and which are read ahead, and reads them between the steps of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.families.layer_spec import Experts
from model_runtime.checkpoint.weights import Fp32
from model_runtime.decoder.native.held_experts import ExpertLayer, Router
from model_runtime.decoder.native.library import FETCH, WAIT, NativeMatrix
from model_runtime.mapped_memory import map_zeros
from model_runtime.shelves.experts_on_disk.file import ExpertFile, ExpertRecord

KEPT = 0.97  # of what an expert is worth, after each token of its layer: half of it after 23
NOWHERE = -1
WORTH_READING = 0.5  # as often as this a guess must have been right: a wrong one takes time and another's place
READERS = 4  # reads under way: a disk is fastest with a few

Numbers = npt.NDArray[np.intp]


class Schedule:
    """Which expert has which slot, and what each is worth.

    Guesses of what a layer wants next are judged when it has chosen, by rank among those that were not in memory.

    An expert's worth is the mean of its scores over its layer's tokens, the last ones counting most. A token has
    scores of those that it chooses alone.
    """

    def __init__(self, layers: int, count: int, chosen: int, slots: int) -> None:
        """Start with nothing in memory; a token chooses `chosen` of the `count` experts of each layer."""
        self.slots, self._chosen = slots, chosen
        self._worth = np.zeros((layers, count), np.float32)
        self._slot_of = np.full((layers, count), NOWHERE)
        self._owner = np.full(slots, NOWHERE)  # numbers of experts, counted through all layers
        self._guessed: dict[int, list[int]] = {}  # by layer, the likeliest first
        self._right = np.full(chosen, WORTH_READING, np.float32)  # the share of guesses that were, by rank

    def slot(self, layer: int, expert: int) -> int:
        """Return the slot of an expert; NOWHERE if it has none."""
        return int(self._slot_of[layer, expert])

    def absent(self, layer: int, experts: Iterable[int]) -> list[int]:
        """Return those experts of a layer that have no slot."""
        return [expert for expert in experts if self._slot_of[layer, expert] == NOWHERE]

    def count_tokens(self, layer: int, scores: Fp32, wanted: Numbers) -> None:
        """Count the scores [tokens, count] of a layer's tokens, which chose the experts `wanted`; judge guesses."""
        if guessed := self._guessed.pop(layer, [])[: self._chosen]:
            chosen = {*wanted.tolist()}
            was_right = np.array([expert in chosen for expert in guessed])
            self._right[: len(guessed)] += (1 - KEPT) * (was_right - self._right[: len(guessed)])
        tokens, count = scores.shape
        if (rest := count - self._chosen) > 0:
            scores = np.where(scores >= np.partition(scores, rest, axis=1)[:, rest, None], scores, 0)
        kept = KEPT**tokens
        self._worth[layer] = self._worth[layer] * kept + scores.mean(0) * (1 - kept)

    def guess(self, layer: int, scores: Fp32) -> list[int]:
        """Return the experts to read ahead for tokens that have these guessed scores [tokens, count] in a layer.

        They are not in memory; the likeliest come first.
        """
        most = self._chosen * len(scores)
        self._guessed[layer] = guessed = self.absent(layer, np.argsort(-scores.max(0), kind="stable")[:most].tolist())
        right = (self._right >= WORTH_READING).tolist()
        return [expert for rank, expert in enumerate(guessed) if right[min(rank, self._chosen - 1)]]

    def assign(self, layer: int, expert: int, held: Iterable[int]) -> int:
        """Give an expert the slot of the least valuable expert that is not `held`; return the slot."""
        worth = np.where(self._owner == NOWHERE, -1.0, self._worth.ravel()[self._owner])
        worth[list(held)] = np.inf
        slot = int(worth.argmin())
        self.release(slot)
        self._owner[slot] = layer * self._worth.shape[1] + expert
        self._slot_of[layer, expert] = slot
        return slot

    def release(self, slot: int) -> None:
        """Take a slot from its expert, if it has one."""
        if (owner := self._owner[slot]) != NOWHERE:
            self._slot_of.ravel()[owner] = NOWHERE
            self._owner[slot] = NOWHERE


def least_slots(experts: Experts) -> int:
    """Return how many slots a pass needs: all of a layer and of the next one, and wrong predictions."""
    return 2 * experts.count + READERS


class ExpertSlots:
    """Slots of one record each, and the threads that read into them; whoever has a slot says which expert."""

    def __init__(self, file: ExpertFile, count: int) -> None:
        """Map memory, which takes room once experts are read. Raises MemoryError."""
        self._file = file
        memory = map_zeros(count * file.record_bytes, in_huge_pages=True)
        self._records: list[npt.NDArray[np.uint8]] = list(memory.reshape(count, -1))
        self._threads = ThreadPoolExecutor(READERS, "experts")

    def record(self, slot: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of a slot."""
        return self._records[slot]

    def read(self, slot: int, layer: int, expert: int) -> Future[None]:
        """Read an expert into a slot on another thread; the future may raise OSError."""
        return self._threads.submit(self._file.read, layer, expert, self._records[slot])


class PlacedExperts:
    """All experts of a model, of which some are in memory.

    Belongs to a decoder, whose passes call it from their own thread. A pass goes on after an error, since it cannot
    stop between its threads, and reads any slot; its caller asks for the error afterwards.
    """

    def __init__(self, experts: Experts, record: ExpertRecord, file: ExpertFile, schedule: Schedule) -> None:
        """Map memory for a schedule's slots. Raises MemoryError."""
        self._experts, self._record = experts, record
        self._slots, self._schedule = ExpertSlots(file, schedule.slots), schedule
        self._layers: list[ExpertLayer] = []
        self._reads: dict[tuple[int, int], Future[None]] = {}  # of a layer and an expert
        self._error: Exception | None = None
        self.fetch, self.wait = FETCH(self._guarded_fetch), WAIT(self._guarded_wait)  # what the compiled part calls

    def add_layer(self, router: Router) -> ExpertLayer:
        """Add the next layer; its matrices point into memory at any time."""
        count = self._experts.count
        up, down = ((NativeMatrix * count)() for _ in range(2))
        layer = ExpertLayer(router, up, down, np.zeros(count, np.uint8))
        self._layers.append(layer)
        for expert in range(count):
            self._point(layer, expert, 0)
        return layer

    def raise_error(self) -> None:
        """Raise the error of a pass that is over, if it had one."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _guarded_fetch(self, layer: int, rows: int, first: Any, x: Any) -> int:
        """Begin to bring a layer's experts; return how many of those that are wanted a pass has to wait for."""
        own, count = self._layers[layer], self._experts.count
        starts = np.ctypeslib.as_array(first, (count + 1,))
        inputs = np.ctypeslib.as_array(x, (rows, own.router.weight.shape[1]))
        own.late[:] = 0
        return self._guarded(lambda: self._fetch(layer, np.flatnonzero(np.diff(starts)), inputs))

    def _guarded_wait(self, layer: int) -> None:
        self._guarded(lambda: self._wait(layer))

    def _guarded(self, call: Callable[[], int]) -> int:
        try:
            return call()
        except Exception as error:  # whatever it is, the pass's caller gets it
            self._error = self._error or error
            return 0

    def _fetch(self, layer: int, wanted: Numbers, inputs: Fp32) -> int:
        self._end_reads(layer, wanted)
        self._schedule.count_tokens(layer, self._scores(layer, inputs), wanted)
        held = {self._schedule.slot(layer, expert) for expert in wanted} - {NOWHERE}
        self._start_reads(layer, self._schedule.absent(layer, wanted), held)
        late = [expert for expert in wanted if (layer, expert) in self._reads]
        self._layers[layer].late[late] = 1
        if layer + 1 < len(self._layers):
            ahead = self._schedule.guess(layer + 1, self._scores(layer + 1, inputs))
            self._start_reads(layer + 1, ahead, held)
        return len(late)

    def _wait(self, layer: int) -> int:
        late = [(layer, int(expert)) for expert in np.flatnonzero(self._layers[layer].late)]
        reads = [self._reads.pop(each) for each in late]
        wait(reads)
        for each, read in zip(late, reads, strict=True):
            if read.exception():
                self._schedule.release(self._schedule.slot(*each))
        for read in reads:
            read.result()  # raises its error
        return 0

    def _end_reads(self, layer: int, wanted: Numbers) -> None:
        """Forget finished reads, and unwanted reads that have not started."""
        for (of, expert), read in [*self._reads.items()]:
            is_wanted = of == layer and expert in wanted
            if not is_wanted and read.cancel() or read.done() and read.exception():
                self._schedule.release(self._schedule.slot(of, expert))
            if read.done():
                del self._reads[of, expert]

    def _start_reads(self, layer: int, experts: list[int], held: set[int]) -> None:
        """Read experts that are not in memory into slots that are not `held`, which then has theirs as well."""
        under_way = {self._schedule.slot(*each) for each in self._reads}
        for expert in experts:
            slot = self._schedule.assign(layer, expert, held | under_way)
            self._point(self._layers[layer], expert, slot)
            self._reads[layer, expert] = self._slots.read(slot, layer, expert)
            held.add(slot)

    def _scores(self, layer: int, inputs: Fp32) -> Fp32:
        """Return a router's scores [rows, count] of inputs; for another layer's inputs they are a prediction."""
        router = self._layers[layer].router
        scores: Fp32 = inputs @ router.weight.T
        if router.bias is not None:
            scores += router.bias
        if self._experts.scores == "sigmoid":
            scores = np.reciprocal(1 + np.exp(-scores))
        else:
            scores = np.exp(scores - scores.max(1, keepdims=True))
            scores /= scores.sum(1, keepdims=True)
        return scores if router.correction is None else np.maximum(scores + router.correction, np.float32(0))

    def _point(self, layer: ExpertLayer, expert: int, slot: int) -> None:
        up, down = self._record.matrices(self._slots.record(slot))
        layer.up[expert], layer.down[expert] = up.native(), down.native()
