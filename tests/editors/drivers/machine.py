"""What the VS Code extension finds on its machine: programs, Python's packages and pip's index, for tests."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from ..fetching.part import ROOT
from .vscode import PYTHON

BARE = Path(os.path.realpath(sys.executable))  # a Python without the server: not the virtual environment's
OWN = {"pip", "setuptools", "pkg_resources", "distutils", "_distutils_hack"}  # as new environments have them


@dataclass(frozen=True)
class Machine:
    """The environment of a VS Code stays as it is while that runs, so a test changes what the environment names."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the VS Code server."""
        return {
            "PATH": f"{self.programs}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "PYTHONPATH": str(self.packages),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.shelf),
        }

    @property
    def programs(self) -> Path:
        """The first folder on the PATH."""
        return self.folder / "bin"

    @property
    def packages(self) -> Path:
        """Where Python finds packages, in whichever environment."""
        return self.folder / "packages"

    @property
    def shelf(self) -> Path:
        """The only place where pip finds packages: files, and pages with links."""
        return self.folder / "shelf"

    @property
    def own_environment(self) -> Path:
        """The Python environment that the extension makes."""
        return self.folder / "data" / "User" / "globalStorage" / "efim-ls.efim-ls" / "server"

    @property
    def installed(self) -> list[Path]:
        """What lies in the extension's environment beside Python's own packages."""
        return [each for each in self.find_installed("*") if each.name.split("-")[0] not in OWN]

    def find_installed(self, pattern: str) -> list[Path]:
        """Return what lies in the extension's environment, by its path below the packages."""
        return [*self.own_environment.glob(f"lib/python*/site-packages/{pattern}")]

    def reset(self) -> None:
        """Leave a Python without packages, an empty shelf, and nothing but pip in the extension's environment."""
        for each in (self.programs, self.packages, self.shelf):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir(parents=True)
        self.put_program("python3", f'exec "{BARE}" "$@"')
        for each in self.installed:
            shutil.rmtree(each) if each.is_dir() else each.unlink()

    def put_program(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        program.chmod(0o755)

    def put_server_on_path(self) -> None:
        self.put_program("efim-ls", f'PYTHONPATH="{ROOT}" exec "{PYTHON}" -m efim_ls "$@"')

    def have_packages_but(self, *names: str) -> None:
        """Install all that the server needs, save these packages and the server."""
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if not path.name.startswith(("__editable__", "efim_ls", *names)):
                (self.packages / path.name).symlink_to(path)
