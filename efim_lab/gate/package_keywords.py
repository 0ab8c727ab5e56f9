"""The keywords that a server lists within a call, from the package that a document lies in, its repository."""

from __future__ import annotations

from collections.abc import Sequence

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.outlined_files import OutlinedFiles
from efim_ls.languages.table import LANGUAGES
from efim_ls.request import ListedNames, Names
from efim_ls.text.outline import outline
from efim_ls.workspace.imports.parameters import find_parameters
from efim_ls.workspace.imports.paths import IndexedFiles, ReferringFile
from efim_ls.workspace.modules.document import REACH, called_at


class PackageKeywords:
    """The keywords of calls by the functions and classes of packages, whose files are read when one is asked for."""

    def __init__(self, packages: Sequence[Sequence[CodeDocument]]) -> None:
        """Take the documents of each package; their paths must differ."""
        self._packages = {each.path: documents for documents in packages for each in documents}
        self._read = dict[tuple[str, str], OutlinedFiles]()

    def at(self, document: CodeDocument, text: str, cursor: int) -> ListedNames | None:
        """Return the keywords that a call at a cursor takes, in a text of a document; None without any."""
        called = called_at(text[max(0, cursor - REACH) : cursor])
        if called is None or not LANGUAGES[document.language].reads_modules:
            return None
        if document.kin not in self._read:
            package = self._packages.get(document.path, ())
            self._read[document.kin] = OutlinedFiles(
                {each.path: outline(each.text, each.language) for each in package}
            )
        callee, files = called.callee.rpartition(".")[2], self._read[document.kin]
        calling = ReferringFile(document.path, document.language, text)
        found = find_parameters(IndexedFiles(files, (), is_shown=bool, read=str), calling, callee)
        names = Names(dict.fromkeys(found, "value"), is_open=True).without(called.given)
        return ListedNames(cursor - len(called.stub), "keyword", names, owner=callee) if found else None
