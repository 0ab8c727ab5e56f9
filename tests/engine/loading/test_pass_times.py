"""Passes of a model's shape, measured for people to read."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from model_runtime.checkpoint.config import ModelConfig, parse_config
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.native.held_experts import ExpertKeeper
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena
from model_runtime.loading import pass_times
from model_runtime.loading.memory_fit import model_size
from model_runtime.loading.pass_times import SAMPLE_PARAMETERS, TIMED_CONTEXT, TIMED_ROWS, PassTimes, measure_passes
from model_runtime.loading.weight_format import CpuMethod, usable_methods
from model_runtime.logits import Logits
from tests.models import Tiny, config, reshaped

SHAPE = parse_config(config(Tiny()))


class Asked(Exception):
    """Ends a measurement once the shape of the sample is known."""


class Asking(CpuMethod):
    """A way that computes nothing, and tells for which shape it was asked to."""

    def decoder(
        self, config: ModelConfig, weights: Weights, threads: int, keeper: ExpertKeeper | None = None
    ) -> AnyDecoder:
        raise Asked(config)


def sample_of(config: ModelConfig) -> ModelConfig:
    """The shape whose passes are measured for a model's."""
    with pytest.raises(Asked) as asked:
        measure_passes(config, [Asking("fp32", compiled=True)], threads=1)
    return asked.value.args[0]


def test_the_sample_has_the_models_widths_and_no_more_layers_and_words_than_needed() -> None:
    large = reshaped(SHAPE, hidden=896, heads=14, head_dim=64, intermediate=4864, layers=24, vocab=151_936)
    sample = sample_of(large)
    assert reshaped(sample, layers=24, vocab=large.vocab, context=large.context) == large
    assert (len(sample.layers), sample.vocab, sample.context) == (1, 4096, TIMED_CONTEXT + max(TIMED_ROWS))
    tiny = sample_of(SHAPE)
    assert replace(tiny, context=SHAPE.context) == SHAPE
    many = sample_of(reshaped(SHAPE, layers=2_000))
    shapes = {name: shape for name, shape in expected_shapes(many).items() if ".layers." in name and len(shape) == 2}
    parameters = sum(rows * columns for rows, columns in shapes.values())
    assert 0.9 * SAMPLE_PARAMETERS < parameters <= SAMPLE_PARAMETERS


def test_it_really_measures_every_way_that_works_here() -> None:
    ways = usable_methods(SHAPE)
    found = measure_passes(SHAPE, ways, threads=1)
    assert list(found) == ways and ways
    assert all(ms > 0 for times in found.values() for ms in times)


@pytest.mark.parametrize("tied", [True, False])
def test_a_samples_times_are_scaled_up_to_the_model(monkeypatch: pytest.MonkeyPatch, tied: bool) -> None:
    """By the parameters that a row is computed with: no embedding, and in a wide pass the head for one row alone."""
    large = replace(SHAPE, vocab=100_000, tied=tied)
    taken = PassTimes(1.0, 2.0, 64.0)
    monkeypatch.setattr(pass_times, "_timer", lambda decoder, config: lambda: [*taken])
    [way, *_] = usable_methods(large)
    layers = model_size(replace(large, vocab=1, tied=True)).parameters - SHAPE.hidden
    sample, whole = (layers + words * SHAPE.hidden for words in (4096, large.vocab))
    expected = [1.0 * whole / sample, 2.0 * whole / sample, 64.0 * layers / sample]
    assert measure_passes(large, [way], 1)[way] == pytest.approx(expected)


def test_logits_are_asked_of_all_rows_since_the_last_layer_leaves_out_the_others() -> None:
    asked = set[tuple[int, int]]()

    class Recording(CpuMethod):
        def decoder(self, *shape: Any, **options: Any) -> AnyDecoder:
            real = super().decoder(*shape, **options)

            def forward(ids: Ids, arena: Arena, rows: int = 1) -> Logits:
                asked.add((len(ids), rows))
                return real.forward(ids, arena, rows)

            return cast(AnyDecoder, SimpleNamespace(forward=forward))

    [way, *_] = usable_methods(SHAPE)
    measure_passes(SHAPE, [Recording(way.form, way.compiled)], threads=1)
    assert asked - {(TIMED_CONTEXT, 1)} == {(rows, rows) for rows in TIMED_ROWS}


def test_a_row_of_a_prompt_follows_from_the_widest_pass() -> None:
    assert PassTimes(1.0, 2.0, 64.0).row == 1.0
