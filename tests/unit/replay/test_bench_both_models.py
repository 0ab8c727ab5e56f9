"""What the benchmark of two models measures, with few keys."""

from __future__ import annotations

import json

from benchmarks.keystrokes.both_models import ALONE, BOTH, measure
from benchmarks.keystrokes.demo_session import demo_session
from model_runtime.checkpoint.embedded import EMBEDDED


def test_keys_are_measured_with_one_model_and_with_both() -> None:
    found = measure(str(EMBEDDED), demo_session(), "python, the demo", turns=2, keys=3)
    assert json.loads(json.dumps(found)) == found and found["keys"] == 6
    assert all(each["p95"] >= each["p50"] > 0 for each in (found["ms"][ALONE], found["ms"][BOTH]))
