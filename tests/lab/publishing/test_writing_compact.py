"""`train compact` writes what the compiled decoder computes the same answers with, and says what it cannot write."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file

from efim_lab.workshop.training.command import main
from model_runtime.checkpoint.tensor_shapes import TOKEN_VALUES
from tests.models import LLAMA, Tiny
from tests.unit.checkpoint.compact_form import MATRIX, TABLE, computed_with, exported, write_compact

TINY = Tiny(family="efim")


@pytest.fixture
def compact(tmp_path: Path) -> Path:
    assert compacted(exported(tmp_path / "exported", TINY), tmp_path / "compact") == 0
    return tmp_path / "compact"


def compacted(model: Path, out: Path) -> int:
    return main(["compact", "--model", str(model), "--out", str(out)])


def test_a_compact_model_computes_with_the_same_numbers_and_has_all_other_files(compact: Path) -> None:
    origin = compact.with_name("exported")
    assert computed_with(compact) == computed_with(origin)
    assert {path.name for path in compact.iterdir()} == {path.name for path in origin.iterdir()}
    assert (compact / "tokenizer.json").read_bytes() == (origin / "tokenizer.json").read_bytes()
    stored = load_file(compact / "model.safetensors")
    assert {f"{TABLE}.low", f"{TABLE}.high", f"{TOKEN_VALUES}.low", f"{MATRIX}.digits", f"{MATRIX}.largest"} <= {
        *stored
    }
    assert not {TABLE, TOKEN_VALUES, MATRIX} & {*stored}


def test_it_holds_what_its_reader_understands(compact: Path, tmp_path: Path) -> None:
    read, written = (
        load_file(each / "model.safetensors")
        for each in (write_compact(compact.with_name("exported"), tmp_path / "other"), compact)
    )
    assert {name: (tensor.dtype, tensor.ndim) for name, tensor in read.items()} == {
        name: (tensor.dtype, tensor.ndim) for name, tensor in written.items()
    }


def test_what_has_no_compact_form_is_told(tmp_path: Path, compact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compacted(exported(tmp_path / "llama", LLAMA), tmp_path / "out") == 1
    assert "of the family llama has no compact form" in capsys.readouterr().err
    assert compacted(compact, tmp_path / "out") == 1
    assert "is not in fp16: name the folder that `run` exported" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
