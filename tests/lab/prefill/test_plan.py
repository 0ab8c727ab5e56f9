"""`bench plan` prints its tables and, as the last line, every figure in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from efim_lab.commands import main
from efim_lab.studies.prefill.costs import PrefillCosts

COSTS = PrefillCosts(
    token=4e-5, key=1e-9, layers=32, chunk=512, kv_bytes=131072, hidden_bytes=8192, partial_bytes=16640
)


def costs_file(folder: Path) -> Path:
    path = folder / "costs.json"
    path.write_text(json.dumps(COSTS._asdict()))
    return path


def test_figures_of_given_costs_are_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "made" / "plan.png"
    assert (
        main(["bench", "plan", "--costs", str(costs_file(tmp_path)), "--latency", "5", "--plot", str(picture)]) == 0
    )
    *lines, last = capsys.readouterr().out.splitlines()
    figures = json.loads(last)
    assert figures["costs"] == COSTS._asdict()
    assert figures["latency"] == pytest.approx(5e-6)
    ways = {"even tokens", "uneven tokens", "layers", "keys"}
    assert {each["way"] for each in figures["planned"]} == ways
    assert len(figures["planned"]) == 3 * 3 * 4 * len(ways)  # prompts, numbers of devices, links
    first = figures["planned"][0]
    assert any(f"{first['seconds']:.3f} s ({first['speedup']:.2f})" in line for line in lines)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_is_done_takes_no_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "plan", "--real", "--costs", str(costs_file(tmp_path))]) != 0
    assert "leave out --costs" in capsys.readouterr().err
