"""Files by their outlines alone, to be asked as the index of a workspace is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from efim_ls.text.outline import Outline
from efim_ls.workspace.database.queries import FoundDefinition, FoundImport


class OutlinedFiles:
    """The definitions and imports of files."""

    def __init__(self, outlines: Mapping[str, Outline]) -> None:
        """Take outlines by paths."""
        self.outlines, self.outline = outlines, outlines.get
        self._defined, self._importing = defaultdict[str, list[FoundDefinition]](list), list[FoundImport]()
        for path, (definitions, imported) in sorted(outlines.items()):
            for each in definitions:
                self._defined[each.name].append(FoundDefinition(path, each))
            self._importing += (FoundImport(path, each) for each in imported)

    def definitions(self, name: str) -> Sequence[FoundDefinition]:
        """Return all definitions of a name, sorted by path and line."""
        return self._defined.get(name, ())

    def importing(self, word: str) -> Sequence[FoundImport]:
        """Return the imports that have a word in them, sorted by path."""
        return [each for each in self._importing if word in each.imported.names or word in each.imported.module]
