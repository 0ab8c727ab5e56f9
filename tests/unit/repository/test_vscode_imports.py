"""Which files of the VS Code extension import which."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "editor_clients/vscode/src"
IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["']\./(\w+)["']""")


def test_imports_lead_one_way() -> None:
    """Imports of types count: a reader follows them too."""
    imports = {path.stem: set(IMPORT.findall(path.read_text("utf-8"))) for path in SOURCES.glob("*.ts")}
    try:
        order = list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        raise AssertionError("a circle: " + " -> ".join(reversed(error.args[1]))) from None
    assert set(order) == set(imports)
    assert order[-1] == "extension"
