"""`bench plan --real` compares one process with two, and has the same bits of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.studies.prefill import real
from tests.compiled import require_compiled
from tests.models import Tiny, make


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    require_compiled()
    monkeypatch.setattr(real, "TRIES", 2)
    return make(tmp_path, Tiny("efim", layers=2, context=150))


def test_each_way_is_timed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real.run_real(folder)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    timed = figures["timed"]
    assert [(each["processes"], each["threads"]) for each in timed] == [(1, 1), (1, 2), (1, 1), (2, 1), (2, 1)]
    assert {sum(each["tokens"]) for each in timed} == {figures["tokens"]} == {150}
    assert all(0 < each["best"] <= each["median"] for each in timed)


def test_a_bit_that_differs_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(*arguments: object) -> real.SplitPrefill:
        found = split(*arguments)  # type: ignore[arg-type]
        found.planes[0][0, 0, 7, 0] = np.nextafter(found.planes[0][0, 0, 7, 0], np.float32(9))
        return found

    split = real.split_prefill
    monkeypatch.setattr(real, "split_prefill", spoilt)
    with pytest.raises(WorkError, match="different bits"):
        real.run_real(folder)
