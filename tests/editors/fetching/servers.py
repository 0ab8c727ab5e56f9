"""Language servers of other projects that editors run next to ours: from npm, from PyPI and from Debian."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .node import NODE, npm
from .part import Part, run
from .programs import of_the_system

TYPESCRIPT_SERVER, TYPESCRIPT, PYLSP = "6.0.2", "5.9.3", "1.15.0"


def _fetch_typescript(folder: Path) -> None:
    (folder / "package.json").write_text(json.dumps({"private": True}))
    npm("install", f"typescript-language-server@{TYPESCRIPT_SERVER}", f"typescript@{TYPESCRIPT}", cwd=folder)
    program = folder / "typescript-language-server"
    program.write_text(
        '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n'
        f'exec "{NODE}" "$here/node_modules/typescript-language-server/lib/cli.mjs" "$@"\n'
    )
    program.chmod(0o755)


def _fetch_pylsp(folder: Path) -> None:
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        folder / "packages",
        f"python-lsp-server=={PYLSP}",
    )
    program = folder / "pylsp"
    program.write_text(
        '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n'
        f'PYTHONPATH="$here/packages" exec "{sys.executable}" -m pylsp "$@"\n'
    )
    program.chmod(0o755)


TYPESCRIPT_LANGUAGE_SERVER = Part(
    "typescript-language-server", TYPESCRIPT_SERVER, "typescript-language-server", _fetch_typescript
)
PYTHON_LSP_SERVER = Part("pylsp", PYLSP, "pylsp", _fetch_pylsp)
GOPLS = of_the_system("gopls", (), ("gopls", "golang-go"))
PARTS = (TYPESCRIPT_LANGUAGE_SERVER, PYTHON_LSP_SERVER, GOPLS)
