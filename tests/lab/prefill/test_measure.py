"""What passes cost is fitted, and only of models each of whose tokens attends to all before it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill.measure import check_attends_to_all, costs_of, fitted
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED


def test_passes_of_a_known_cost_are_fitted() -> None:
    passes = [
        (width, position, 1e-3 + 2e-4 * width + 1e-7 * width * (position + width / 2))
        for width, position in product((16, 32, 64), (0, 500, 1000))
    ]
    fit = fitted(passes)
    assert fit[:3] == pytest.approx((1e-3, 2e-4, 1e-7))
    assert fit.error == pytest.approx(0, abs=1e-9)


def test_a_pass_costs_its_tokens_a_share() -> None:
    config = read_config(EMBEDDED)
    fit = fitted([(16, 0, 0.002), (32, 0, 0.003), (64, 0, 0.005)])
    costs = costs_of(config, fit, chunk=64)
    assert costs.token == pytest.approx(0.005 / 64)
    assert costs.kv_bytes == 8 * 2 * 64 * 4  # layers, keys and values, numbers of the only head, fp32
    assert (costs.hidden_bytes, costs.score_bytes) == (4 * 320, 0)


def test_a_model_with_a_window_is_refused() -> None:
    config = read_config(EMBEDDED)
    layer = config.layers[0]
    assert layer.attention is not None
    sliding = replace(layer, attention=replace(config.full, window=64))
    check_attends_to_all(config)
    with pytest.raises(WorkError, match="see a window alone"):
        check_attends_to_all(replace(config, layers=(sliding, *config.layers[1:])))
