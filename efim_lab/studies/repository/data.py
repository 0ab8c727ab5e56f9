"""The repositories that are measured: folders, a corpus file's packages, or the installed ones held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from platform import python_version

from efim_lab.gate.documents import CodeDocument, package_of, read_documents
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.held_out_data import read_held_out
from efim_lab.gate.evaluation.typist.lines import with_plain_line_ends
from efim_lab.studies.repository.project_names import PACKAGE_FILE

# The embedded model has not seen them (`heldout` in the corpus' splits.py); all but asyncio come with dependencies.
HELD_OUT = ("asyncio", "cattrs", "jinja2", "networkx", "pygls")
LEFT_OUT = frozenset({"test", "tests", "testing", "_vendor", "vendor", "vendored"})  # folders


@dataclass(frozen=True)
class RepositoryFiles:
    """A repository by its name and version, empty if unknown; paths of its documents begin with the name."""

    name: str
    version: str
    documents: tuple[CodeDocument, ...]


def read_repositories(paths: Sequence[Path]) -> list[RepositoryFiles]:
    """Read repositories, without tests and code of others; without paths, those held out that are installed.

    A folder is one repository, a corpus file has one for each package. Raises WorkError if there is no code, or if
    two have the same name.
    """
    found = [each for path in paths for each in _read(path, path.resolve().name, "")] if paths else _installed()
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise WorkError(f"two repositories are named {twice}: rename a folder, or leave one out")
    return found


def _installed() -> list[RepositoryFiles]:
    found = list[RepositoryFiles]()
    for name in HELD_OUT:
        if (spec := find_spec(name)) and spec.origin:
            found += _read(Path(spec.origin).parent, name, _version(name))
    return found


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return python_version()  # a part of the standard library


def _read(path: Path, name: str, version: str) -> list[RepositoryFiles]:
    if path.is_dir():
        empty = [CodeDocument(each.relative_to(path).as_posix(), "") for each in sorted(path.rglob(PACKAGE_FILE))]
        files = {each.path: each.text for each in (*empty, *read_held_out(path))}
        packages = {name: [CodeDocument(f"{name}/{each}", text) for each, text in sorted(files.items())]}
    else:
        packages = dict[str, list[CodeDocument]]()
        for document in read_documents(path):
            packages.setdefault(package_of(document), []).append(document)
    wanted = {name: tuple(map(with_plain_line_ends, filter(_is_own, each))) for name, each in packages.items()}
    if not any(wanted.values()):
        raise WorkError(f"{path} has no code except tests: name a repository's folder or a heldout.jsonl")
    return [RepositoryFiles(name, version, documents) for name, documents in wanted.items() if documents]


def _is_own(document: CodeDocument) -> bool:
    return LEFT_OUT.isdisjoint(document.path.split("/")[1:-1])
