"""Servers of this source that editors start in place of `efim-ls serve`."""

from __future__ import annotations

import shlex
import stat
import sys
from pathlib import Path

from ..fetching.part import ROOT
from .vscode import PYTHON

ONE_RULE, PATIENT = (ROOT / "tests" / "lsp" / f"serve_{each}.py" for each in ("one_rule", "patient"))


def for_neovim(server: Path) -> str:
    """Return the option of the plugin that names a server."""
    return f'cmd = {{ "env", "PYTHONPATH={ROOT}", "{sys.executable}", "{server}" }}'


def for_vscode(server: Path, python: Path) -> str:
    """Return the setting `python` that has the extension start a server; the program is written to a path."""
    serve = shlex.join([str(PYTHON), str(server)])
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{ROOT}"\n[ "$3" = serve ] && exec {serve}\nexec {PYTHON} "$@"\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return str(python)
