"""Collects what documents show: short programs in their documentation, and the files in folders of examples."""

import re
from collections.abc import Callable, Iterable

from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training.corpus.filters import SeenLines

FOLDERS = frozenset(
    {"algorithms", "cookbook", "demo", "demos", "example", "examples", "pygorithm", "recipes", "samples"}
    | {"tutorial", "tutorials"}
)
_FEWEST_LINES = 5  # of a program; a shorter one shows too little of how a library is used
_IMPORT = re.compile(r"(?:import|from) .*[\w*;'\"]")

Snippets = Callable[[str], Iterable[str]]


def examples_in(learnt: Iterable[CodeDocument], snippets: Snippets) -> list[CodeDocument]:
    """Return the files in FOLDERS, and a document for each other file that shows enough.

    `snippets` yields what the documentation in a file shows.
    """
    collector, seen = ExampleCollector(snippets), SeenLines()
    found: list[CodeDocument] = []
    for document in learnt:
        top, _, name = document.path.partition("/")
        if not FOLDERS.isdisjoint(name.split("/")[:-1]):
            found.append(document)
        elif (program := collector.program(document.text)) and seen.add_if_new(program):
            found.append(CodeDocument(f"{top}/examples/{name}", program))
    return found


class ExampleCollector:
    """Collects programs of examples; of a snippet that several files repeat, only the first is taken."""

    def __init__(self, snippets: Snippets) -> None:
        self._snippets, self._seen = snippets, set[str]()

    def program(self, text: str) -> str:
        """Return the examples in a file's documentation, with blank lines between them; "" if they are too short."""
        kept: list[str] = []
        imported: set[str] = set()
        for snippet in self._snippets(text):
            if snippet not in self._seen:
                self._seen.add(snippet)
                kept.append(_without_imports(snippet, imported))
        program = "\n\n".join(filter(None, kept)) + "\n"
        lines = sum(bool(line.strip()) for line in program.split("\n"))
        return program if lines >= _FEWEST_LINES else ""


def _without_imports(snippet: str, imported: set[str]) -> str:
    """Drop a snippet's one-line imports that are in `imported`, and add the others to it."""
    lines = snippet.split("\n")
    found = [line for line in lines if _IMPORT.fullmatch(line)]
    kept = [line for line in lines if line not in imported]
    imported.update(found)
    return "\n".join(kept).strip("\n")
