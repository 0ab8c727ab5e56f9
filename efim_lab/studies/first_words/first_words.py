"""Measures the first word that is shown where a name begins: right behind a dot, after one letter and after two.

At keywords of calls, in Python, the first letters are typed as well. The rest of the cursor's line is not there yet.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.figures.intervals import Estimate, proportion
from efim_lab.gate.evaluation.held_out import model_name
from efim_lab.gate.evaluation.held_out_data import read_held_out
from efim_lab.gate.evaluation.places.cursors import line_at
from efim_lab.gate.evaluation.report import percent
from efim_lab.gate.evaluation.typist.keys import TypedKey, asking, key_at, no_names
from efim_lab.gate.evaluation.typist.lines import TypedLine, in_turn, shuffled_packages, with_plain_line_ends
from efim_lab.gate.package_counts import PackageCounts
from efim_lab.studies.first_words.other_server import OtherServer
from efim_ls.completion.completer import Completer
from efim_ls.completion.filters.place import place_at
from efim_ls.completion.suggestions.place_kind import spot_of
from efim_ls.request import ListedNames
from efim_ls.settings import Settings
from efim_ls.workspace.modules.environment import find_environment
from efim_ls.workspace.modules.table import ModuleTable
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.linear import packed_format
from model_runtime.loading.checkpoint_reader import read_tokenizer

NameKind = Literal["attribute", "keyword"]
LETTERS = 3  # cursors at a name: behind none of its letters, one, and two
# A name of three letters or more: behind a dot, or in brackets before an equals sign.
PATTERNS: Mapping[NameKind, re.Pattern[str]] = {
    "attribute": re.compile(r"(?:(?<=[\w)\]]\.)|(?<=[\w)\]]->))[^\W\d]\w{2,}"),
    "keyword": re.compile(r"(?<=[(,])[ \n]*([^\W\d]\w{2,})=(?!=)"),
}


FirstWords = Mapping[str, Sequence[TypedKey]]  # by the kind of name and the letters that are typed


def run_first_words(data: Path, folders: Sequence[Path], count: int, language: str, server: str = "") -> None:
    """Print which first words every model shows at up to `count` names of each kind, also with an editor's `server`.

    Raises WorkError if there is no such name or no such server, ModelError if a model cannot be loaded.
    """
    documents = [with_plain_line_ends(each) for each in read_held_out(data, language)]
    models = list[dict[str, object]]()
    for folder, command in product(folders, ("", server) if server else ("",)):
        with ExitStack() as used:
            listed = no_names
            if command:
                place = Path(used.enter_context(TemporaryDirectory()))
                listed = used.enter_context(OtherServer(command, place, documents)).listed
            found = measure(folder, documents, count, listed)
        title = f"{model_name(folder)}, with {command}" if command else model_name(folder)
        print(f"{title}\n\n{table(found)}\n", flush=True)
        models.append({"model": model_name(folder), "server": command, "first_words": as_json(found)})
    print(json.dumps({"data": str(data), "models": models}))


def measure(
    folder: Path,
    documents: Sequence[CodeDocument],
    count: int,
    listed: Callable[[TypedLine, int], ListedNames | None] = no_names,
) -> FirstWords:
    """Type the first letters of up to `count` names of each kind, in their repository, with the model in a folder.

    `listed` returns the names that another server lists at a cursor. Raises WorkError if there are no such names,
    ModelError if the model cannot be loaded.
    """
    settings = Settings(model="" if folder == EMBEDDED else str(folder), persist=False, weights=packed_format())
    completer = Completer.load(settings, lambda _phase, _percent: None)
    memories = PackageCounts(read_tokenizer(folder, read_config(folder)), documents)
    ask = asking(completer, "balanced", "names", memories, ModuleTable(partial(find_environment, ())), listed)
    found = dict[str, list[TypedKey]]()
    for kind in PATTERNS:
        for name in choose_names(documents, kind, count):
            for letters, cursor in enumerate(name.cursors[:LETTERS]):
                key = key_at(kind, name, cursor, ask(name, cursor, ()))
                found.setdefault(f"{kind}, {letters} letters", []).append(key)
    completer.close(0)
    if not found:
        raise WorkError("the data has no names behind a dot: name a folder of packages")
    return found


def choose_names(documents: Sequence[CodeDocument], kind: NameKind, count: int) -> list[TypedLine]:
    """Choose up to `count` names of a kind in code, evenly over packages and their files; the same each time."""
    rng = random.Random(0)
    packages = [in_turn([_names(each, kind, rng) for each in files]) for files in shuffled_packages(documents, rng)]
    return list(islice(in_turn(packages), count))


def _names(document: CodeDocument, kind: NameKind, rng: random.Random) -> Iterator[TypedLine]:
    """Yield a document's names of a kind, each with the rest of its line, in random order."""
    text = document.text
    found = list(PATTERNS[kind].finditer(text))
    rng.shuffle(found)
    for each in found:
        start = each.start(each.lastindex or 0)
        row = text.count("\n", 0, start)
        line, anchor = line_at(text, row)
        spot = spot_of(place_at(text[:start], start, document.language))
        if spot.kind == ("attribute" if kind == "attribute" else "argument"):
            yield TypedLine(document, row, start, anchor + len(line.rstrip()), anchor + len(line))


def shares(found: Sequence[TypedKey]) -> tuple[Estimate, Estimate]:
    """Return the share of places at which the first word shown is right, and the share at which it is wrong."""
    right = [each.is_first_word_right for each in found]
    wrong = [bool(each.shown) and not each.is_first_word_right for each in found]
    return proportion(right), proportion(wrong)


def table(found: FirstWords) -> str:
    """Format the shares in Markdown."""
    rows = [("at", "places", "right first word %", "wrong first word %")]
    for name, keys in found.items():
        right, wrong = shares(keys)
        rows.append((name, f"{len(keys)}", percent(right), percent(wrong)))
    return markdown.table(rows)


def as_json(found: FirstWords) -> Mapping[str, object]:
    """Return the shares as plain values."""
    return {
        name: {"places": len(keys), "right": asdict(shares(keys)[0]), "wrong": asdict(shares(keys)[1])}
        for name, keys in found.items()
    }
