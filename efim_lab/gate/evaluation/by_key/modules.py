"""The modules that held-out packages can import, as if their environments were known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.evaluation.typist.keys import READING
from efim_ls.workspace.modules.document import imports_of
from efim_ls.workspace.modules.environment import WORKSPACE, Environment, find_environment
from efim_ls.workspace.modules.names import Target
from efim_ls.workspace.modules.table import ModuleTable, ModuleView


@dataclass(frozen=True)
class PackageEnvironment(Environment):
    """An environment in which all is installed that a package's files import, and nothing else."""

    imported: frozenset[str] = frozenset()

    def places(self) -> dict[str, str]:
        """Return all modules that can be imported, and in plain words where each one lies."""
        return dict.fromkeys(self.imported, WORKSPACE) | super().places()


class PackageModules:
    """The modules that the files of each package can import."""

    def __init__(self, documents: Sequence[CodeDocument]) -> None:
        """Take all documents of the packages."""
        self._imported = dict[str, set[str]]()
        self._tables = dict[str, ModuleTable]()
        for each in documents:
            names = {module.partition(".")[0] for module in imports_of(each.text).modules}
            self._imported.setdefault(package_of(each), {package_of(each)}).update(names)

    def view(self, document: CodeDocument, text: str) -> ModuleView:
        """Return the view of a document with this text once all its imports are read."""
        package = package_of(document)
        if package not in self._tables:
            known = find_environment((), variables={})
            here = PackageEnvironment(
                known.library, known.version, is_whole=True, imported=frozenset(self._imported[package])
            )
            self._tables[package] = ModuleTable(lambda: here)
        table = self._tables[package]
        table.want(document.path, text)
        table.wait(READING)
        return table.view


def is_there(view: ModuleView, module: str, name: str) -> bool:
    """Return whether a module can be imported and, if the name is not empty, has it; true where that is not known."""
    if not view.top_level.may_have(module.partition(".")[0]):
        return False
    names = view.modules.attributes(Target(module)) if name and name != "*" else None
    return names is None or names.may_have(name)
