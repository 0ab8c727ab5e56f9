"""What `efim-ls status` prints of a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_ls.commands import servers
from efim_ls.commands.servers import DaemonStatus
from model_runtime.checkpoint.embedded import EMBEDDED


def test_a_daemon_is_told_with_names_and_numbers_as_people_write_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status: DaemonStatus = {
        "version": "1.2", "pid": 7, "since": 0.0, "mib": 140,
        "clients": [{"name": "Neovim", "documents": 1}, {"name": "VS Code", "documents": 2}],
        "models": [{"model": str(EMBEDDED), "clients": 2}, {"model": str(Path("my", "model")), "clients": 1}],
    }  # fmt: skip
    monkeypatch.setattr(servers, "time", lambda: 70.0)
    monkeypatch.setattr(servers, "_ask_all", lambda want: iter([status]))
    assert servers.show(as_json=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "efim-ls 1.2, process 7, 140 MiB, for 1 minute",
        "  embedded model for Python: 2 clients",
        f"  {Path('my', 'model')}: 1 client",
        "  Neovim: 1 open document",
        "  VS Code: 2 open documents",
    ]
