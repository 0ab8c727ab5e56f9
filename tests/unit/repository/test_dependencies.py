"""What the packages import is declared, and no text sends users to a name in a registry that is not ours."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INSTALLED = ("efim_ls", "model_runtime", "kv_store", "editor_clients")
LABORATORY = ("efim_lab",)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def names(requirements: list[str]) -> dict[str, str]:
    """Return each requirement by the normalized name of its distribution."""
    return {re.split(r"[^\w.-]", each)[0].lower().replace("_", "-"): each for each in requirements}


REQUIRED = names(PROJECT["dependencies"])
EXTRAS = {extra: names(requirements) for extra, requirements in PROJECT["optional-dependencies"].items()}


@cache
def imported(packages: tuple[str, ...]) -> set[str]:
    """Return the distributions of all modules that are imported anywhere in the packages, lazily or by name too."""
    modules, installed = set[str](), packages_distributions()
    for path in (path for package in packages for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {each.name.split(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.split(".")[0])
            elif isinstance(node, ast.Constant) and (found := re.fullmatch(r"(\w+):\w+", str(node.value))):
                modules |= {found[1]} & {*installed}
    foreign = modules - {*INSTALLED, *LABORATORY} - sys.stdlib_module_names
    return {each.lower().replace("_", "-") for module in foreign for each in installed.get(module, [module])}


def test_what_is_imported_is_declared() -> None:
    extras = {name for extra in ("gpu", "foreign", "gguf", "http", "shared") for name in EXTRAS[extra]}
    assert imported(INSTALLED) - {*REQUIRED, *extras} == set()
    assert imported(("efim_lab/gate",)) - {*REQUIRED, *EXTRAS["gate"]} == set()
    assert imported(LABORATORY) - {*REQUIRED, *EXTRAS["train"]} == set()


def test_what_is_declared_is_imported() -> None:
    assert set(REQUIRED) - imported(INSTALLED) == set()


def test_the_short_list_names_the_versions_of_the_whole_one() -> None:
    lines = (ROOT / "requirements-embedded.txt").read_text("utf-8").splitlines()
    short = names([line for line in lines if not line.startswith("#")])
    assert {name: each for name, each in short.items() if name in REQUIRED} == {
        name: each.partition(";")[0] for name, each in REQUIRED.items() if name in short
    }
    assert set(REQUIRED) - set(short) == {"torch", "huggingface-hub", "httpx2", "filelock"}  # the last three fetch


def test_torch_has_an_upper_bound() -> None:
    """Operators of its own are called, which the next release may not have."""
    assert re.search(r"<\d", REQUIRED["torch"])


# An installer, and behind it, save for options, the bare name.
BY_NAME = re.compile(
    r"(?:\bpipx?3?|\buvx?)\b[^\n]*\b(?:install|run|add|upgrade)\b"
    r"(?:[^\n\w]+(?:--?[\w-]+|[\w./]+\.txt))*[^\n\w./]+efim[-_]ls\b(?![-_/.\w])"
)


@pytest.mark.parametrize(
    "text",
    [
        "pip install efim-ls",
        "`uv tool install --upgrade 'efim-ls'`",
        'run("pip", "install", "-c", "c.txt", "efim_ls")',
    ],
)
def test_an_installation_by_name_is_seen(text: str) -> None:
    assert BY_NAME.search(text)


def test_no_text_installs_by_a_name_that_is_not_ours() -> None:
    """Whoever registered it would have their code run by our users: the server is installed from a file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / path for path in listed.split("\0") if path and ROOT / path != Path(__file__)]
    contents = ((path.name, path.read_bytes()) for path in paths if path.is_file())
    lines = ((name, line) for name, content in contents if b"efim" in content for line in content.splitlines())
    ours = [(name, line.decode("utf-8", "replace")) for name, line in lines if b"efim" in line]
    assert [(name, found[0]) for name, line in ours if (found := BY_NAME.search(line))] == []
