"""What can be asked of an index without the thread that changes it: definitions, similar passages."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from efim_ls.languages.forms.language import Import
from efim_ls.text.outline import Definition, Outline
from efim_ls.workspace.files.content import LONGEST_WORD, PASSAGE_LINES, indexed_form

PASSAGE_BITS = 16  # of a passage's row number; the content's stands above them
# Passages that a look-up ranks; commoner words are left out, since each costs about a microsecond.
MOST_COMPARED = 1000
MOST_IMPORTING = 200  # files whose imports are read for one name
# A view of the full-text index, which this connection alone sees.
WORDS_BY_PLACE = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_by_place USING fts5vocab (main, passages, instance)"


class Passage(NamedTuple):
    """Lines of a file, counted from 0, the last one included."""

    path: str
    first_line: int
    last_line: int


class FoundDefinition(NamedTuple):
    """A definition and the path of the file that it is in."""

    path: str
    definition: Definition


class FoundImport(NamedTuple):
    """An import and the path of the file that it is in."""

    path: str
    imported: Import


class IndexQueries:
    """Queries of outlines and words on one connection; every error of SQLite is the caller's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Take a connection in autocommit mode to an index with outlines."""
        self.connection = connection

    def similar(self, words: Sequence[str], most: int) -> list[Passage]:
        """Return the passages that share the rarest of these words, by BM25, the most similar first."""
        counted = sorted((count, word) for word in dict.fromkeys(words) if (count := self._count(word)))
        rare, total = list[str](), 0
        for count, word in counted:
            total += count
            if total > MOST_COMPARED:
                break
            rare.append(_quoted(word))
        if not rare:
            return []
        rows = self.connection.execute(
            "SELECT path, number, lines FROM "
            "(SELECT rowid AS number, rank AS score FROM passages WHERE passages MATCH ? ORDER BY rank) AS found "
            f"JOIN files ON content = number >> {PASSAGE_BITS} JOIN outlines USING (content) "
            "WHERE NOT gone ORDER BY score, path, number LIMIT ?",
            (" OR ".join(rare), most),
        )
        return [_passage(*row) for row in rows]

    def definitions(self, name: str) -> list[FoundDefinition]:
        """Return the definitions of a name, sorted by path and line."""
        rows = self.connection.execute(
            "SELECT path, name, kind, line, signature FROM definitions JOIN files USING (content) "
            "WHERE name = ? AND NOT gone ORDER BY path, line",
            (name,),
        )
        return [FoundDefinition(path, Definition(*rest)) for path, *rest in rows]

    def names(self, after: str, most: int) -> dict[str, int]:
        """Return the first defined names after one, in order, each with the number of its definitions."""
        rows = self.connection.execute(
            "SELECT name, count(*) FROM definitions JOIN files USING (content) "
            "WHERE name > ? AND NOT gone GROUP BY name ORDER BY name LIMIT ?",
            (after, most),
        )
        return dict(rows.fetchall())

    def references(self, names: Sequence[str]) -> dict[str, int]:
        """Return in how many files each name stands."""
        self.connection.execute(WORDS_BY_PLACE)
        counted = (
            "SELECT count(DISTINCT path) FROM words_by_place JOIN files ON content = doc >> ? "
            "WHERE term = ? AND NOT gone"
        )
        found = dict[str, int]()
        for name in names:
            term = indexed_form(name[:LONGEST_WORD]).lower()
            found[name] = self.connection.execute(counted, (PASSAGE_BITS, term)).fetchone()[0]
        return found

    def outline(self, path: str) -> Outline | None:
        """Return the outline of a file, None if it is not in the index."""
        row = self.connection.execute(
            "SELECT content, imports FROM files JOIN outlines USING (content) WHERE path = ? AND NOT gone", (path,)
        ).fetchone()
        if row is None:
            return None
        definitions = self.connection.execute(
            "SELECT name, kind, line, signature FROM definitions WHERE content = ? ORDER BY number", row[:1]
        )
        imports = tuple(Import(module, tuple(names)) for module, names in json.loads(row[1]))
        return Outline(tuple(Definition(*each) for each in definitions), imports)

    def importing(self, word: str) -> list[FoundImport]:
        """Return the imports that have a word in them, sorted by path."""
        rows = self.connection.execute(
            "SELECT path, imports FROM outlines JOIN files USING (content) "
            "WHERE instr(imports, ?) AND NOT gone ORDER BY path LIMIT ?",
            (json.dumps(word)[1:-1], MOST_IMPORTING),
        )
        found = ((path, Import(module, tuple(names))) for path, each in rows for module, names in json.loads(each))
        return [FoundImport(path, each) for path, each in found if word in each.names or word in each.module]

    def _count(self, word: str) -> int:
        """Return how many passages a word stands in, counted no further than matters."""
        counted = "SELECT count(*) FROM (SELECT 1 FROM passages WHERE passages MATCH ? LIMIT ?)"
        return self.connection.execute(counted, (_quoted(word), MOST_COMPARED + 1)).fetchone()[0]


def _passage(path: str, number: int, lines: int) -> Passage:
    first = (number & ((1 << PASSAGE_BITS) - 1)) * PASSAGE_LINES
    return Passage(path, first, min(first + PASSAGE_LINES, lines) - 1)


def _quoted(word: str) -> str:
    return '"' + indexed_form(word[:LONGEST_WORD]).replace('"', " ") + '"'
