"""The laboratory's help, and what refuses a mistake, import no torch, which takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.commands.test_torch_stays_out import imports, run


@pytest.mark.parametrize("line", ["--help", "train --help", "bench --help"])
def test_help_imports_no_torch(tmp_path: Path, line: str) -> None:
    done = run(tmp_path, *line.split(), program="efim_lab")
    assert done.returncode == 0
    assert not imports(done, "torch")


def test_an_experiment_refuses_a_mistake_before_torch_is_imported(tmp_path: Path) -> None:
    done = run(tmp_path, "bench", "efim-paper", "--model", "./none", program="efim_lab")
    assert (done.returncode, done.stdout) == (1, "")
    assert "'./none' is not a folder here" in done.stderr
    assert not imports(done, "torch")
