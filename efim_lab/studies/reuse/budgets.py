"""Measures policies for context under a budget, at the same windows, against full attention over all excerpts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time

import numpy as np
import torch

from efim_lab.gate.evaluation.places.cursors import Context
from efim_lab.studies.reuse.figures import Measured, divergences
from efim_lab.studies.reuse.margins import margins
from efim_lab.studies.reuse.network import LayerKv, Network
from efim_lab.studies.reuse.places import ReusePlace
from efim_lab.studies.reuse.policies import definitions, quantized, rows
from efim_lab.studies.reuse.policies.epicache import epicache
from efim_lab.studies.reuse.policies.locret import locret, trained_heads
from efim_lab.studies.reuse.policies.merging import lookm
from efim_lab.studies.reuse.policies.policy import BudgetPolicy, Kept, StoredChunk, StoredContext, attention_mass
from efim_lab.studies.reuse.policies.recall import fastkv, ilre
from efim_lab.studies.reuse.policies.retrieval import sparsevila
from efim_lab.studies.reuse.policies.rules import without_generated
from efim_lab.studies.reuse.policies.uncomp import uncomp
from efim_lab.studies.reuse.subject import NEW_TOKENS, ReuseSubject, Rows, Target
from model_runtime.kv.layout import arena_bytes

BEFORE, AFTER = 900, 300  # characters of a window, small so that the excerpts matter
SHARES = (0.5, 0.25)
FOLLOWED = 8  # tokens of the completion after which distributions are compared
FASTKV = "FastKV, first answer"
WHOLE, COLD, NONE = "all rows", "all rows, computed now", "no context"
READS_CURSOR = ("ILRe",)  # policies that compute once the cursor is known: their time is the answer's
# Policies that a budget says nothing to: they are measured once.
FREE = (NONE, "int8", "int4", "ZipCache", "random int8 and int4", "ZipVL", "without generated text", "notes alone")

Found = dict[tuple[str, str], list[Measured]]  # by budget and policy


def policies(subject: ReuseSubject, network: Network, trained: Sequence[StoredContext]) -> Mapping[str, BudgetPolicy]:
    """Return the policies by name."""
    middle = Network(
        replace(subject.config, layers=subject.config.layers[: len(subject.config.layers) // 2]), subject.weights
    )
    return {
        NONE: rows.nothing,
        "random rows": rows.random_rows,
        "last rows": rows.last_rows,
        "random definitions": definitions.random_definitions,
        "most similar definitions": definitions.similar_definitions,
        "attended rows": rows.attended_rows,
        "ShotKV": definitions.shotkv,
        "Locret": locret(trained_heads(trained)),
        "EpiCache, 2 topics": epicache,
        "UNComp": uncomp,
        "LOOK-M": lookm,
        "SparseVILA, reads": sparsevila,
        "ILRe": ilre(middle),
        "int8": quantized.all_int8,
        "int4": quantized.all_int4,
        "ZipCache": quantized.zipcache,
        "random int8 and int4": quantized.random_int8,
        "ZipVL": quantized.zipvl,
        "without generated text": without_generated,
        "notes alone": margins(subject),
    }


def measure_budgets(
    subject: ReuseSubject,
    places: Sequence[ReusePlace],
    training: Sequence[ReusePlace],
    progress: Callable[[int], None],
) -> Found:
    """Measure every policy at every place and budget; heads are trained at other places."""
    network = Network(subject.config, subject.weights)
    known = policies(subject, network, [_stored(subject, network, place, -1)[0] for place in training])
    found = Found()
    for done, place in enumerate(places):
        progress(done)
        at = _Place(subject, network, place, done)
        found.setdefault(("", WHOLE), []).append(at.measured)
        found.setdefault(("", COLD), []).append(at.cold())
        for name, policy in known.items():
            for share in SHARES:
                if name not in FREE:
                    each = at.beside(policy, share, name in READS_CURSOR)
                    found.setdefault((f"{share:.0%}", name), []).append(each)
            if name in FREE:
                found.setdefault(("", name), []).append(at.beside(policy, 1.0))
        for share in SHARES:
            found.setdefault((f"{share:.0%}", FASTKV), []).append(at.narrowed(share))
    return found


@dataclass(frozen=True)
class _Answer:
    """Logits [tokens, vocab] after a window and each beginning of a completion, with the time that they took.

    `past` are the keys and values of context and window.
    """

    rows: Rows
    ms: float
    past: Sequence[LayerKv] = ()


class _Place:
    """A window after its excerpts, and what follows it under full attention."""

    def __init__(self, subject: ReuseSubject, network: Network, place: ReusePlace, seed: int) -> None:
        self._subject, self._network, self._file = subject, network, place.file
        self._context, self._target = _stored(subject, network, place, seed)
        whole = rows.everything(self._context, 1.0)
        self._tokens = self._greedy(whole, self._answered(whole, []))
        self._exact = self._answered(whole, self._tokens)
        self.measured = self._figures(self._exact, self._tokens, 1.0)

    def cold(self) -> Measured:
        """Measure full attention of which nothing is at hand."""
        began = process_time()
        self._network.run(np.concatenate((self._context.ids, self._context.window)))
        return replace(self.measured, recomputed=self.measured.tokens, ms=(process_time() - began) * 1e3)

    def beside(self, policy: BudgetPolicy, share: float, timed: bool = False) -> Measured:
        """Measure a policy; if it is `timed`, its own work counts as well."""
        began = process_time()
        kept = policy(self._context, share)
        spent = (process_time() - began) * 1e3
        answer = self._answered(kept, self._tokens)
        answer = replace(answer, ms=answer.ms + spent * timed)
        tokens = self._tokens if self._is_same(answer.rows) else self._greedy(kept, answer)
        return self._figures(answer, tokens, kept.bytes)

    def narrowed(self, share: float) -> Measured:
        """Measure FastKV, whose first answer rests on a whole pass of few rows."""
        prompt = np.concatenate((self._context.ids, self._context.window))
        began = process_time()
        logits = fastkv(self._network, prompt, np.array(self._tokens, dtype=np.int32), share).numpy()
        answer = _Answer(logits, (process_time() - began) * 1e3)
        same = self._is_same(logits)
        # Its own completion would need a pass for each token: where it differs, it counts as wrong.
        right = same and self._subject.is_right(self._tokens, self._target)
        return replace(self._figures(answer, self._tokens, 1.0), same=same, exact=right)

    def _is_same(self, logits: Rows) -> bool:
        tokens, choose = self._tokens, self._subject.choose
        return all(choose(row, tokens[:n], self._target) == tokens[n] for n, row in enumerate(logits))

    def _figures(self, answer: _Answer, tokens: Sequence[int], share: float) -> Measured:
        context, config = self._context, self._subject.config
        size = arena_bytes(replace(config, excerpt_rows=0), context.rows)
        divergence = divergences(self._exact.rows, answer.rows)[:FOLLOWED]
        same, exact = list(tokens) == list(self._tokens), self._subject.is_right(tokens, self._target)
        held = context.rows + len(context.window)
        return Measured(self._file, len(context.window), held, answer.ms, share * size, divergence, same, exact)

    def _answered(self, kept: Kept, tokens: Sequence[int]) -> _Answer:
        window = self._context.window
        ids = np.concatenate((window, np.array(tokens[:-1], dtype=np.int32)))
        began = process_time()
        hidden, traces = self._network.run(ids, kept.past, kept.seen)
        logits = self._network.logits(hidden[-max(1, len(tokens)) :]).numpy()
        ms = (process_time() - began) * 1e3
        new = [LayerKv(trace.kv.k[:, : len(window)], trace.kv.v[:, : len(window)]) for trace in traces]
        return _Answer(logits, ms, [_joined(*both) for both in zip(kept.past, new, strict=True)])

    def _greedy(self, kept: Kept, answer: _Answer) -> list[int]:
        """Return the greedy completion up to the end of its line."""
        past, tokens = list(answer.past), [self._subject.choose(answer.rows[0], [], self._target)]
        while len(tokens) < NEW_TOKENS and not self._subject.ends(tokens[-1]):
            hidden, traces = self._network.run(np.array(tokens[-1:], dtype=np.int32), past, kept.seen)
            past = [_joined(before, trace.kv) for before, trace in zip(past, traces, strict=True)]
            tokens.append(self._subject.choose(self._network.logits(hidden[-1]).numpy(), tokens, self._target))
        return tokens


def _joined(past: LayerKv, new: LayerKv) -> LayerKv:
    return LayerKv(torch.cat((past.k, new.k), 1), torch.cat((past.v, new.v), 1))


def _stored(subject: ReuseSubject, network: Network, place: ReusePlace, seed: int) -> tuple[StoredContext, Target]:
    """Compute a place's excerpts, and return them with what should follow the window."""
    head, tail = place.context.head[-BEFORE:], place.context.tail[:AFTER]
    text = Context(head[head.find("\n") + 1 :], place.context.typed, tail[: tail.rfind("\n") + 1], 1)
    window, target = subject.window(text, place.rest)
    bos = len(subject.template.bos)
    parts, chunks, start = [window[:bos]], list[StoredChunk](), bos
    for excerpt in place.excerpts:
        parts.append(subject.excerpt(excerpt))
        chunks.append(StoredChunk(slice(start, start + len(parts[-1])), excerpt.path, excerpt.text))
        start += len(parts[-1])
    ids = np.concatenate(parts)
    _, traces = network.run(ids)
    context = StoredContext(
        network=network,
        ids=ids,
        chunks=chunks,
        traces=traces,
        mass=attention_mass(traces),
        window=window[bos:],
        window_text=text.head + text.typed + text.tail,
        seed=seed,
    )
    return context, target
