"""Cold prefill of one prompt by several processes of this machine, each with consecutive tokens.

A process goes through the layers with its own tokens. Keys and values are in memory that all share, so that nothing
is sent: in front of each layer a process waits until all before it have written that layer's, and they wait for none
behind them. A token's numbers have the same bits as in one process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Barrier, Semaphore
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill.layer_decoder import LayerDecoder, Planes, check_layers
from model_runtime.checkpoint.config import ModelConfig, read_config
from model_runtime.checkpoint.weights import Fp32, read_weights
from model_runtime.decoder.quantization import Format
from model_runtime.ids import Ids
from model_runtime.kv.layout import KvLayout, split


class SplitPrefill(NamedTuple):
    """What processes have computed: logits after the prompt [vocab], its keys and values, and seconds of each try."""

    logits: Fp32
    planes: Planes
    seconds: list[float]


class _Share(NamedTuple):
    """What one process is to do: its tokens begin at `start`.

    It waits for each of `earlier` in front of each layer, and lets each of `later` go on behind it. `start_line` is
    where all wait before each try.
    """

    folder: Path
    form: Format
    memory: Any
    prompt: Ids
    start: int
    end: int
    tries: int
    start_line: Barrier
    earlier: Sequence[Semaphore]
    later: Sequence[Semaphore]


class _Try(NamedTuple):
    """When one process began and ended, and the logits if the prompt's last token is its own."""

    begin: float
    end: float
    logits: Fp32


def split_prefill(folder: Path, form: Format, prompt: Ids, cuts: Sequence[int], tries: int = 1) -> SplitPrefill:
    """Compute a prompt with a process of one thread for each part between two cuts, from 0 to the prompt's end.

    Raises WorkError if the model cannot be computed so.
    """
    config = read_config(folder)
    check_layers(config)
    if list(cuts) != sorted(set(cuts)) or (cuts[0], cuts[-1]) != (0, len(prompt)) or len(prompt) > config.context:
        raise WorkError(f"{cuts} do not cut {len(prompt)} tokens into parts: name ascending ones from 0 to their end")
    context, parts = get_context("spawn"), list(pairwise(cuts))
    memory = context.RawArray(ctypes.c_float, KvLayout.of(config).arena_bytes(len(prompt)) // 4)
    planes = _planes(config, memory, len(prompt))
    for plane in planes:
        plane.fill(np.nan)
    start_line = context.Barrier(len(parts))
    # made[i][j]: layers whose keys and values part i has written and part j has not yet read.
    made = [[context.Semaphore(0) for _ in parts] for _ in parts]
    shares = list[_Share]()
    for at, part in enumerate(parts):
        earlier, later = [row[at] for row in made[:at]], made[at][at + 1 :]
        shares.append(_Share(folder, form, memory, prompt, *part, tries, start_line, earlier, later))
    found = _run(shares)
    seconds = [max(each.end for each in row) - min(each.begin for each in row) for row in found]
    return SplitPrefill(found[-1][-1].logits[0], planes, seconds)


def _run(shares: Sequence[_Share]) -> list[list[_Try]]:
    """Run a process for each share; return all tries, each with one of every process."""
    context = get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in shares]
    processes = [
        context.Process(target=_work, args=(share, sender), daemon=True)
        for share, (_, sender) in zip(shares, pipes, strict=True)
    ]
    try:
        for process in processes:
            process.start()
        for _, sender in pipes:
            sender.close()
        receivers = [receiver for receiver, _ in pipes]
        return [_received(receivers) for _ in range(shares[0].tries)]
    except EOFError:
        raise WorkError("a process of the split prefill has ended early: its error is above") from None
    finally:
        _end(processes)


def _received(receivers: Sequence[Connection[Any, Any]]) -> list[_Try]:
    """Return what each process sends next; raises EOFError if one has ended, whichever it is."""
    found = dict[Any, _Try]()
    while len(found) < len(receivers):
        for ready in wait([each for each in receivers if each not in found]):
            assert isinstance(ready, Connection)
            found[ready] = ready.recv()
    return [found[each] for each in receivers]


def _end(processes: Sequence[SpawnProcess]) -> None:
    """End processes that are done, or of which one has failed."""
    for process in processes:
        if process.pid is not None:
            process.terminate()
            process.join()


def _work(share: _Share, sender: Connection[Any, Any]) -> None:
    """Do a share of each try, and send when it was done."""
    config = read_config(share.folder)
    planes = _planes(config, share.memory, len(share.prompt))
    decoder = LayerDecoder(config, read_weights(share.folder, config), share.form, planes)
    for _ in range(share.tries):
        share.start_line.wait()
        begin = perf_counter()
        logits = _through_layers(share, decoder)
        sender.send(_Try(begin, perf_counter(), logits))


def _through_layers(share: _Share, decoder: LayerDecoder) -> Fp32:
    """Take a share's tokens through all layers, and return the logits of the prompt's last token, if it is there."""
    ids = share.prompt[share.start : share.end]
    x, last = decoder.embedded(ids), len(decoder.config.layers) - 1
    for index in range(last):
        _acquire(share.earlier)
        decoder.layer(index, ids, x, share.start)
        _release(share.later)
    _acquire(share.earlier)
    logits = decoder.last_layer(ids, x, share.start, share.end == len(share.prompt))
    _release(share.later)
    return logits


def _acquire(semaphores: Sequence[Semaphore]) -> None:
    for each in semaphores:
        each.acquire()


def _release(semaphores: Sequence[Semaphore]) -> None:
    for each in semaphores:
        each.release()


def _planes(config: ModelConfig, memory: Any, tokens: int) -> Planes:
    """Return the planes of `tokens` tokens as views of memory that processes share."""
    layout = KvLayout.of(config)
    return split(np.frombuffer(memory, np.float32), layout.placed_in_arena(tokens))
