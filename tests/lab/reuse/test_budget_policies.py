"""Policies for context under a budget: they keep to it, say the same twice, and touch nothing but the context."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from efim_lab.studies.reuse.network import Network
from efim_lab.studies.reuse.policies import definitions, quantized, rows
from efim_lab.studies.reuse.policies.epicache import epicache
from efim_lab.studies.reuse.policies.locret import locret, trained_heads
from efim_lab.studies.reuse.policies.merging import lookm
from efim_lab.studies.reuse.policies.policy import BudgetPolicy, Kept, StoredChunk, StoredContext, attention_mass
from efim_lab.studies.reuse.policies.recall import fastkv, ilre
from efim_lab.studies.reuse.policies.retrieval import sparsevila
from efim_lab.studies.reuse.policies.rules import is_generated, without_generated
from efim_lab.studies.reuse.policies.uncomp import uncomp
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.decoder import Decoder
from model_runtime.kv.arena import DenseArena
from tests.engine.doubles import decoder_of

TOKENS = np.random.default_rng(1).integers(5, 400, 200).astype(np.int32)
CONTEXT, STEP = 160, 40
CLOSE = 2e-3


@pytest.fixture(scope="module")
def network(folder: Path) -> Network:
    config = read_config(folder)
    return Network(config, read_weights(folder, config))


@pytest.fixture(scope="module")
def context(network: Network) -> StoredContext:
    _, traces = network.run(TOKENS[:CONTEXT])
    starts = range(0, CONTEXT, STEP)
    texts = (
        "def total(records): sum",
        "def read(path): lines",
        "class Record: total",
        "def write(path, lines): lines",
    )
    return StoredContext(
        network=network,
        ids=TOKENS[:CONTEXT],
        chunks=[StoredChunk(slice(at, at + STEP), "a.py", text) for at, text in zip(starts, texts, strict=True)],
        traces=traces,
        mass=attention_mass(traces),
        window=TOKENS[CONTEXT:],
        window_text="for line in read(path): lines",
        seed=3,
    )


@pytest.fixture(scope="module")
def policies(context: StoredContext) -> dict[str, BudgetPolicy]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("efim_lab.studies.reuse.policies.locret.STEPS", 5)
        heads, again = trained_heads([context]), trained_heads([context])
    for head, other in zip(heads, again, strict=True):
        pairs = zip(head.parameters(), other.parameters(), strict=True)
        assert all(torch.equal(mine, theirs) for mine, theirs in pairs)
    return {
        "nothing": rows.nothing,
        "random": rows.random_rows,
        "last": rows.last_rows,
        "attended": rows.attended_rows,
        "shotkv": definitions.shotkv,
        "random definitions": definitions.random_definitions,
        "similar definitions": definitions.similar_definitions,
        "uncomp": uncomp,
        "lookm": lookm,
        "epicache": epicache,
        "sparsevila": sparsevila,
        "locret": locret(heads),
    }


NAMES = [
    "nothing", "random", "last", "attended", "shotkv", "random definitions", "similar definitions", "uncomp", "lookm",
    "epicache", "sparsevila", "locret",
]  # fmt: skip


def masks(context: StoredContext, kept: Kept) -> torch.Tensor:
    """What each layer sees of the context when the window asks."""
    assert kept.seen is not None
    _, traces = context.network.run(context.window, context.past)
    return torch.stack([kept.seen(layer, trace.queries) for layer, trace in enumerate(traces)])


@pytest.mark.parametrize("share", [0.5, 0.25])
@pytest.mark.parametrize("name", NAMES)
def test_a_policy_keeps_to_its_budget_twice_alike_and_masks_the_context_alone(
    context: StoredContext, policies: dict[str, BudgetPolicy], name: str, share: float
) -> None:
    seen, again = (masks(context, policies[name](context, share)) for _ in range(2))
    assert torch.equal(seen, again)
    assert seen.shape == (2, CONTEXT)  # of the window nothing can be dropped
    assert seen.sum() <= share * seen.numel()
    if name in ("random", "last", "attended", "locret", "lookm"):
        assert seen.sum(1).tolist() == [share * CONTEXT] * 2


@pytest.mark.parametrize("name", ["shotkv", "random definitions", "similar definitions"])
def test_definitions_are_kept_whole_or_not_at_all(
    context: StoredContext, policies: dict[str, BudgetPolicy], name: str
) -> None:
    seen = masks(context, policies[name](context, 0.6))
    for chunk in context.chunks:
        assert len(set(seen[:, chunk.rows].flatten().tolist())) == 1


def test_all_rows_are_full_attention_and_the_decoders(network: Network, context: StoredContext, folder: Path) -> None:
    hidden, _ = network.run(context.window, rows.everything(context, 1.0).past)
    whole, _ = network.run(TOKENS)
    assert (hidden - whole[CONTEXT:]).abs().max() < CLOSE
    decoder: Decoder = decoder_of(folder)
    logits = decoder.forward(TOKENS, DenseArena(decoder.config, 512), 3)
    assert (network.logits(whole[-3:]) - logits).abs().max() < CLOSE


def test_rounding_comes_nearer_with_more_bits(network: Network, context: StoredContext) -> None:
    exact, _ = network.run(context.window, context.past)

    def error(policy: BudgetPolicy) -> float:
        hidden, _ = network.run(context.window, policy(context, 1.0).past)
        return float((hidden - exact).abs().mean())

    mixed = error(quantized.zipcache)
    assert 0 < error(quantized.all_int8) < mixed < error(quantized.all_int4)
    assert quantized.all_int4(context, 1).bytes < quantized.zipcache(context, 1).bytes
    assert quantized.zipvl(context, 1).bytes <= quantized.all_int8(context, 1).bytes


def test_what_is_recalled_and_what_goes_on_is_exact_where_that_is_everything(
    network: Network, context: StoredContext
) -> None:
    exact, _ = network.run(TOKENS)
    hidden, _ = network.run(context.window, ilre(network)(context, 1.0).past)
    assert (hidden[-1] - exact[-1]).abs().max() < CLOSE
    logits = fastkv(network, TOKENS[:190], TOKENS[190:], 1.0)
    assert (logits - network.logits(exact[-11:-1])).abs().max() < CLOSE
    assert (fastkv(network, TOKENS[:190], TOKENS[190:], 0.2) - logits).abs().max() > CLOSE


def test_generated_and_vendored_text_is_left_out(context: StoredContext) -> None:
    assert is_generated("src/_vendor/six.py", "") and is_generated("a_pb2.py", "")
    assert is_generated("a.py", "# This file was auto-generated.\n") and not is_generated("vendors.py", "import os")
    assert masks(context, without_generated(context, 1.0)).all()
