"""Passes of a model's shape, measured for people to read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model_runtime.checkpoint.config import ModelConfig, parse_config
from model_runtime.checkpoint.tensor_shapes import expected_shapes
from model_runtime.checkpoint.weights import Weights
from model_runtime.decoder.any_decoder import AnyDecoder
from model_runtime.decoder.native.held_experts import ExpertKeeper
from model_runtime.loading import pass_times
from model_runtime.loading.memory_fit import model_size
from model_runtime.loading.pass_times import SAMPLE_PARAMETERS, TIMED_CONTEXT, TIMED_ROWS, PassTimes, measure_passes
from model_runtime.loading.weight_format import CpuMethod, usable_methods
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
    many = sample_of(reshaped(SHAPE, layers=20_000))
    shapes = {name: shape for name, shape in expected_shapes(many).items() if ".layers." in name and len(shape) == 2}
    parameters = sum(rows * columns for rows, columns in shapes.values())
    assert 0.9 * SAMPLE_PARAMETERS < parameters <= SAMPLE_PARAMETERS


def test_it_really_measures_every_way_that_works_here() -> None:
    ways = usable_methods(SHAPE)
    found = measure_passes(SHAPE, ways, threads=1)
    assert list(found) == ways and ways
    assert all(ms > 0 for times in found.values() for ms in times)


def test_a_samples_times_are_scaled_up_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(SHAPE, vocab=100_000)
    taken = PassTimes(1.0, 2.0, 64.0)
    monkeypatch.setattr(pass_times, "_timer", lambda decoder, config: lambda: [*taken])
    [way, *_] = usable_methods(large)
    larger = model_size(large).parameters / model_size(replace(large, vocab=4096)).parameters
    assert measure_passes(large, [way], 1)[way] == pytest.approx([larger * ms for ms in taken])


def test_a_row_of_a_prompt_follows_from_the_widest_pass() -> None:
    assert PassTimes(1.0, 2.0, 64.0).row == 1.0
