"""Measures methods of composition: each in every scenario, compared with the exact reuse of a common prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import process_time
from typing import NamedTuple

import numpy as np

from efim_lab.studies.reuse.figures import Measured, divergences
from efim_lab.studies.reuse.methods.cacheblend import CacheBlend
from efim_lab.studies.reuse.methods.early_layers import EarlyLayers
from efim_lab.studies.reuse.methods.kvcomm import KvComm
from efim_lab.studies.reuse.methods.kvshare import KvShare
from efim_lab.studies.reuse.network import Network
from efim_lab.studies.reuse.places import ReusePlace
from efim_lab.studies.reuse.scenarios import Scenario, scenarios
from efim_lab.studies.reuse.subject import NEW_TOKENS, ReuseSubject, Rows, Target
from model_runtime.cancel import NEVER
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import arena_bytes
from model_runtime.sequence_key import SequenceKey
from model_runtime.shelves.composition.composer import Composer, CompositionMethod, FirstRows

EXACT = "exact"
FOLLOWED = 8  # tokens of the exact completion after which distributions are compared

Found = dict[tuple[str, str], list[Measured]]  # by scenario and method


class Method(NamedTuple):
    """A way to compose; `share` is what its check costs of a pass of the whole prompt."""

    make: Callable[[Scenario], CompositionMethod]
    share: float = 0.0
    only: str = ""


def methods(subject: ReuseSubject) -> Mapping[str, Method]:
    """Return the methods by name; methods with a check pay for it."""
    early = EarlyLayers(subject)
    network = Network(replace(subject.config, layers=subject.config.layers[:2]), subject.weights)
    return {
        "rotation only": Method(_always(FirstRows(0))),
        "EPIC, 2 rows": Method(_always(FirstRows(2))),
        "EPIC, 16 rows": Method(_always(FirstRows(16))),
        "repair, 32 rows": Method(_always(FirstRows(32))),
        "CacheBlend, 15 %": Method(_always(CacheBlend(early)), early.share),
        "KVShare, 15 %": Method(_always(KvShare(network)), early.share),
        "KVCOMM, 3 anchors": Method(partial(KvComm, subject), only="context"),
    }


def _always(method: CompositionMethod) -> Callable[[Scenario], CompositionMethod]:
    def make(_: Scenario) -> CompositionMethod:
        return method

    return make


def measure_composition(
    subject: ReuseSubject, places: Sequence[ReusePlace], progress: Callable[[int], None]
) -> Found:
    """Measure every method at every place."""
    found, known = Found(), methods(subject)
    for done, place in enumerate(places):
        progress(done)
        for scenario in scenarios(subject, place):
            exact = _Exact(subject, scenario, place.file)
            found.setdefault((scenario.name, EXACT), []).append(exact.measured)
            for name, method in known.items() if scenario.name != "cold" else ():
                if method.only in ("", scenario.name):
                    found.setdefault((scenario.name, name), []).append(exact.beside(method))
    return found


class _Exact:
    """A prompt computed exactly, and what follows it."""

    def __init__(self, subject: ReuseSubject, scenario: Scenario, file: str) -> None:
        self._subject, self._scenario, self._file = subject, scenario, file
        arena, began = _copied(subject, scenario.arena), process_time()
        held = arena.reusable(SequenceKey(scenario.ids))
        logits = _finished(subject, arena, scenario.ids)
        ms = (process_time() - began) * 1e3
        self._tokens = _greedy(subject, arena, logits, scenario.target)
        self._rows = _rows_after(subject, arena, scenario.ids, self._tokens)
        exact = subject.is_right(self._tokens, scenario.target)
        self.measured = self._figures(len(scenario.ids) - held, ms, 0, (0.0,) * len(self._tokens), True, exact)

    def beside(self, method: Method) -> Measured:
        """Measure a method at the same prompt."""
        subject, scenario = self._subject, self._scenario
        chosen, arena = method.make(scenario), _copied(subject, scenario.arena)
        composer, began = Composer(subject.decoder, chosen), process_time()
        composed = composer.compose(arena, SequenceKey(scenario.ids), scenario.others, NEVER)
        left = len(scenario.ids) - arena.reusable(SequenceKey(scenario.ids))
        logits = _finished(subject, arena, scenario.ids)
        ms = (process_time() - began) * 1e3
        checked = method.share * (composed.placed + composed.computed)
        rows = _rows_after(subject, arena, scenario.ids, self._tokens)
        tokens = self._tokens
        same = all(subject.choose(row, tokens[:n], scenario.target) == tokens[n] for n, row in enumerate(rows))
        if not same:
            arena.truncate(len(scenario.ids))
            tokens = _greedy(subject, arena, logits, scenario.target)
        extra = chosen.bytes if isinstance(chosen, KvComm) else 0
        kl, right = divergences(self._rows, rows), subject.is_right(tokens, scenario.target)
        return self._figures(composed.computed + left + checked, ms, extra, kl, same, right)

    def _figures(
        self, recomputed: float, ms: float, extra: float, kl: tuple[float, ...], same: bool, exact: bool
    ) -> Measured:
        tokens = len(self._scenario.ids)
        kept = arena_bytes(self._subject.config, tokens) + extra
        return Measured(self._file, recomputed, tokens, ms, kept, kl[:FOLLOWED], same, exact)


def _copied(subject: ReuseSubject, arena: Arena) -> Arena:
    copy = subject.arena()
    copy.copy_prefix(arena, arena.length)
    return copy


def _finished(subject: ReuseSubject, arena: Arena, ids: Ids) -> Rows:
    """Compute what an arena lacks of a prompt; return the logits [vocab] that follow it."""
    arena.truncate(min(arena.common(SequenceKey(ids)), len(ids) - 1))
    subject.extend(arena, ids[arena.length : -1])
    return np.asarray(subject.decoder.forward(ids[-1:], arena))[0]


def _greedy(subject: ReuseSubject, arena: Arena, logits: Rows, target: Target) -> list[int]:
    """Return the greedy completion up to the end of its line."""
    tokens = [subject.choose(logits, [], target)]
    while len(tokens) < NEW_TOKENS and not subject.ends(tokens[-1]):
        row = np.asarray(subject.decoder.forward(np.array(tokens[-1:], dtype=np.int32), arena))[0]
        tokens.append(subject.choose(row, tokens, target))
    return tokens


def _rows_after(subject: ReuseSubject, arena: Arena, ids: Ids, tokens: Sequence[int]) -> Rows:
    """Return the logits [tokens, vocab] that follow a prompt and each beginning of a completion."""
    arena.truncate(len(ids) - 1)
    row = np.concatenate((ids[-1:], np.array(tokens[:-1], dtype=np.int32)))
    return np.asarray(subject.decoder.forward(row, arena, len(row)))
