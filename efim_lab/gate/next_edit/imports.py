"""Scenarios of the rule *import*: each line of a repository's files typed, with all imports or without one."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from efim_lab.gate.errors import WorkError
from efim_lab.gate.git import run_git
from efim_lab.gate.next_edit.fit import Example
from efim_lab.gate.next_edit.scenarios import ENDINGS
from efim_lab.gate.outlined_files import OutlinedFiles
from efim_ls.languages.forms.language import Import
from efim_ls.languages.table import family_of, language_of
from efim_ls.next_edit.import_lines import ITEM, ImportStatement, import_statements
from efim_ls.next_edit.rules.imports import imports
from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.situation import Situation
from efim_ls.text.document import Document, EditHistory, PastEdit
from efim_ls.text.lines import enclosing_line
from efim_ls.text.outline import MEMBERS, Importable, Outline, outline
from efim_ls.workspace.imports.importable import find_importable
from efim_ls.workspace.imports.paths import ReferringFile

LARGEST = 200_000  # bytes of a file that is read

Verdict = Literal["found", "wrong", "silent", "loud"]


class WrittenLine(NamedTuple):
    """A line that was typed last: the file up to it and, if an import is missing, all that it should import."""

    path: str
    language: str
    text: str
    start: int
    wanted: Counter[Import] | None


class ImportRow(NamedTuple):
    """A typed line: whether it lacks an import, the verdict on the offer, and the candidates if there were some."""

    language: str
    lacks: bool
    verdict: Verdict
    example: Example | None


class ImportFigures(NamedTuple):
    """Shares of lines that lack an import, and of offers; `loud` counts offers for lines that lack none."""

    lacking: int
    found: float
    wrong: float
    lines: int
    loud: int
    precision: float


class SourceTree(OutlinedFiles):
    """The files of a repository's last commit, unpacked into a folder, with their definitions and imports."""

    def __init__(self, repository: Path, folder: Path) -> None:
        """Unpack; WorkError if there is no repository."""
        with tarfile.open(fileobj=BytesIO(run_git(repository, "archive", "HEAD"))) as archive:
            archive.extractall(folder, filter="data")
        self.texts = dict(_sources(folder))
        super().__init__({path: outline(text, language_of(path)) for path, text in self.texts.items()})
        if not self.texts:
            raise WorkError(
                f"{repository} has no source file in Python, TypeScript, Go or Rust: name another repository"
            )

    def is_importable(self, name: str, path: str) -> bool:
        """Return whether one other file defines a name, so that it should be found."""
        alike = [each for each in self.definitions(name) if each.definition.kind not in MEMBERS]
        places = {each.path for each in alike if family_of(language_of(each.path)) == family_of(language_of(path))}
        return len(places) == 1 and path not in places


def typed(repository: Path) -> Iterator[ImportRow]:
    """Type each line of a repository's last commit, and yield the offers; WorkError if it is no repository."""
    with TemporaryDirectory() as folder:
        tree = SourceTree(repository, Path(folder).resolve())
        for line in typed_lines(tree):
            yield ImportRow(line.language, line.wanted is not None, *offered(tree, line))


def typed_lines(tree: SourceTree) -> Iterator[WrittenLine]:
    """Yield each line of each file's code typed last, and each that uses an import first without that import."""
    for path, text in tree.texts.items():
        language = language_of(path)
        document = Document(path, language, text)
        statements = import_statements(document)
        taken = {
            n for each in statements for n in range(document.line_of(each.start), document.line_of(each.end) + 1)
        }
        at = 0
        for number, line in enumerate(text.splitlines(keepends=True)):
            if number not in taken and line.strip():
                yield WrittenLine(path, language, text[: at + len(line)], at + len(line) - len(line.lstrip()), None)
            at += len(line)
        for statement in statements:
            for name, without in _without_one(text, statement):
                if language != "go" and not tree.is_importable(name, path):
                    continue
                cut = len(text) - len(without)
                if (use := _first_use(without, name, cut, statement)) is None:
                    continue
                end = enclosing_line(without, use)[1]
                wanted = _flat(outline(text[: end + cut], language))
                if _flat(outline(without[:end], language)) != wanted:
                    yield WrittenLine(path, language, without[:end], use, wanted)


def offered(tree: SourceTree, line: WrittenLine) -> tuple[Verdict, Example | None]:
    """Return the verdict on the offer after a typed line, and the candidates with whether they are right."""
    document, history, cursor = _play(line)
    edits = NextEdits(history)
    if not (names := edits.unknown_names(document, cursor)):
        return "silent", None
    file = ReferringFile(line.path, line.language, line.text)
    own = outline(line.text, line.language).imports
    known = [found for name in names if (found := find_importable(tree, file, own, name, lambda _: True))]
    example = _example(line, document, history, cursor, known)
    edit = edits.propose(document, cursor, known)
    if edit is None or edit.rule != "import":
        return "silent", example
    if line.wanted is None:
        return "loud", example
    after = document.text[: edit.start] + edit.added + document.text[edit.end :]
    return ("found" if _flat(outline(after, line.language)) == line.wanted else "wrong"), example


def import_figures(rows: Sequence[ImportRow]) -> ImportFigures:
    """Return the figures of lines that were typed; a share of nothing is 0."""
    counts = Counter(row.verdict for row in rows)
    lacking = sum(row.lacks for row in rows)
    shown = counts["found"] + counts["wrong"] + counts["loud"]
    found, wrong = (round(counts[each] / max(1, lacking), 3) for each in ("found", "wrong"))
    precision = round(counts["found"] / max(1, shown), 3)
    return ImportFigures(lacking, found, wrong, len(rows) - lacking, counts["loud"], precision)


def _example(
    line: WrittenLine, document: Document, history: EditHistory, cursor: int, known: Sequence[Importable]
) -> Example | None:
    candidates = imports(Situation(document, cursor, (), history.recent(), known))
    if not candidates:
        return None
    right = list[bool]()
    for each in candidates:
        start = each.place.start - sum(map(len, each.place.around.left))
        end = each.place.end + sum(map(len, each.place.around.right))
        after = document.text[:start] + each.place.rewritten + document.text[end:]
        right.append(_flat(outline(after, line.language)) == line.wanted)
    return Example([each.features for each in candidates], right, 1.0)


def _play(line: WrittenLine) -> tuple[Document, EditHistory, int]:
    document, history = Document("file:///typed", line.language, line.text), EditHistory()
    end = enclosing_line(line.text, line.start)[1]
    history.follow(PastEdit(document.uri, line.start, "", line.text[line.start : end], 0.0, keys=end - line.start))
    return document, history, end


def _sources(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in ENDINGS and path.is_file() and path.stat().st_size <= LARGEST:
            try:
                yield str(path), path.read_bytes().decode("utf-8")
            except UnicodeDecodeError:
                continue


def _without_one(text: str, statement: ImportStatement) -> Iterator[tuple[str, str]]:
    """Yield each name that a statement imports, with the text without that."""
    line, below = enclosing_line(text, statement.start)[0], enclosing_line(text, statement.end)[2]
    if statement.names is None:
        name = statement.found.groupdict().get("single") or PurePath(statement.module).name
        yield name, text[:line] + text[below:]
        return
    items = [each.span() for each in ITEM.finditer(text[: statement.names[1]], statement.names[0])]
    for number, (start, end) in enumerate(items):
        if len(items) == 1:
            yield text[start:end], text[:line] + text[below:]
        elif number + 1 < len(items):
            yield text[start:end], text[:start] + text[items[number + 1][0] :]
        else:
            yield text[start:end], text[: items[number - 1][1]] + text[end:]


def _first_use(text: str, name: str, cut: int, statement: ImportStatement) -> int | None:
    """Return where the line begins, behind its blanks, that uses a name first behind its import."""
    if not (used := re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)").search(text, statement.end - cut)):
        return None
    start, end, _ = enclosing_line(text, used.start())
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def _flat(found: Outline) -> Counter[Import]:
    """Return each imported name by itself."""
    flat = Counter[Import]()
    for module, names in found.imports:
        outer, braces, inner = module.partition("{")
        if braces:  # as Rust lists names
            module, names = outer.removesuffix("::"), tuple(re.findall(r"[\w:]+", inner))
        elif "::" in module:
            module, names = module.rpartition("::")[0], (module.rpartition("::")[2],)
        flat.update(Import(module, (name,)) for name in names or ("",))
    return flat
