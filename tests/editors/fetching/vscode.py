"""VS Code's own web server, with its real extension host, from the npm package code-server."""

from __future__ import annotations

import platform
import sys
import tarfile
from functools import partial
from pathlib import Path

from .node import npm
from .part import Missing, Part

INSIDE = "package/lib/vscode/"
QUIET = ("--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund")


def server(version: str, package: str) -> Part:
    return Part("vscode-with-typescript", version, "out/server-main.js", partial(fetch, f"code-server@{package}"))


def fetch(package: str, folder: Path) -> None:
    """Leave out what code-server adds, and install what VS Code and extensions import, which needs no compiler."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Missing(f"VS Code is tested on Linux x86-64 only, not on {sys.platform} {platform.machine()}")
    packed = folder / npm("pack", "--silent", package, cwd=folder).strip()
    with tarfile.open(packed) as archive:
        for member in archive:
            if member.name.startswith(INSIDE):
                member.name = member.name.removeprefix(INSIDE)
                archive.extract(member, folder, filter="data")
    packed.unlink()
    for each in (folder, folder / "extensions"):
        npm("install", *QUIET, cwd=each)


NEWEST, OLDEST = server("1.139.1", "4.139.1"), server("1.100.3", "4.100.3")
PARTS = (NEWEST, OLDEST)
