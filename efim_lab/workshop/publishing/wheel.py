"""Packs a model's folder as a wheel, which a server finds by its entry points once it is in the same environment.

`python -m efim_lab.workshop.publishing.wheel MODEL NAME VERSION OUT` is a step of `make release`; for people it is
`python -m efim_lab train wheel`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from efim_lab.gate.errors import WorkError
from efim_ls.languages.table import listed, names_of
from model_runtime.checkpoint.config import read_config, read_languages
from model_runtime.checkpoint.embedded import ENTRY_POINTS
from model_runtime.checkpoint.weight_files import weight_files

CARD = "README.md"
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LICENCE = re.compile(r"\A---\n(?:.*\n)*?license: *(\S+)\n(?:.*\n)*?---\n")


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A model's folder, and the name and version of the package that it becomes; `name` has hyphens."""

    model: Path
    name: str
    version: str

    @property
    def module(self) -> str:
        """The name of the folder that is installed."""
        return self.name.replace("-", "_")


def write_wheel(package: ModelPackage, out: Path) -> Path:
    """Write the wheel into a folder and return it; raises WorkError, or ModelError if the folder is no model."""
    if not NAME.fullmatch(package.name):
        raise WorkError(f"{package.name!r} is no name of a package: use small letters, digits and hyphens")
    languages = read_languages(package.model)
    if not languages:
        raise WorkError(f"{package.model}/config.json names no languages: list them as programming_languages")
    read_config(package.model)
    weight_files(package.model)
    with TemporaryDirectory() as parent:
        project, built = Path(parent, "project"), Path(parent, "built")
        shutil.copytree(package.model, project / package.module)
        (project / package.module / "__init__.py").touch()
        (project / "pyproject.toml").write_text(_project(package, languages), encoding="utf-8")
        _build(project, built)
        [wheel] = built.iterdir()
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out))


def _build(project: Path, built: Path) -> None:
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built)]
    done = subprocess.run([sys.executable, "-m", *command, str(project)], capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["pip says nothing"]
        raise WorkError(f"the wheel could not be built ({reason[0]}): run pip install setuptools")


def _project(package: ModelPackage, languages: tuple[str, ...]) -> str:
    """Return the package's pyproject.toml; what the model's card says of its licence is said there, too."""
    card = package.model / CARD
    licence = _LICENCE.match(card.read_text(encoding="utf-8")) if card.is_file() else None
    lines = [
        "[build-system]",
        'requires = ["setuptools>=77"]',
        'build-backend = "setuptools.build_meta"',
        "",
        "[project]",
        f'name = "{package.name}"',
        f'version = "{package.version}"',
        f'description = "A model of efim-ls for {listed(names_of(languages))}"',
        *([f'readme = "{package.module}/{CARD}"'] if card.is_file() else []),
        *([f'license = "{licence[1]}"'] if licence else []),
        "",
        f'[project.entry-points."{ENTRY_POINTS}"]',
        *(f'{language} = "{package.module}"' for language in languages),
        "",
        "[tool.setuptools]",
        f'packages = ["{package.module}"]',
        "",
        "[tool.setuptools.package-data]",
        f'{package.module} = ["*"]',
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder, name, version, out = sys.argv[1:]
    write_wheel(ModelPackage(Path(folder), name, version), Path(out))
