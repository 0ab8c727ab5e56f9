"""`next-edit`: measures what the rules offer in histories of repositories, or fits how sure they are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from efim_lab.gate.errors import WorkError
from efim_lab.gate.next_edit.fit import FITTED, fit, weights
from efim_lab.gate.next_edit.histories import Repository
from efim_lab.gate.next_edit.imports import ImportFigures, ImportRow, import_figures, typed
from efim_lab.gate.next_edit.measure import Figures, OfferRow, by_rules, figures, measure
from efim_lab.gate.next_edit.scenarios import EditScenario, Kind, scenarios
from efim_ls.languages.table import name_of
from efim_ls.next_edit.rules.table import RULES

WIDTH = 110  # of tables
# After what, the kinds of scenarios, and whose offers count: after a definition, names are replaced in its body, too.
GROUPS: tuple[tuple[str, Kind, Kind, Collection[str]], ...] = (
    ("two edits", "three", "two", RULES),
    ("one edit", "rename", "one", RULES),
    ("two edits that differ", "transform", "pair", RULES),
    ("a definition", "signature", "definition", ("signature",)),
)

Row = TypeVar("Row", OfferRow, ImportRow)


def run_fit(folders: Sequence[Path], commits: int) -> None:
    """Print the weights of each rule's features as JSON; WorkError if a folder holds no repository."""
    cases = _cases(folders, commits)
    found = {rule: fit(rule, cases) for rule in FITTED}
    found["import"] = weights([row.example for row in _typed(folders) if row.example])
    print(json.dumps({rule: {k: round(v, 2) for k, v in each.items()} for rule, each in found.items()}, indent=4))


def run_measure(folders: Sequence[Path], commits: int) -> None:
    """Print figures by language, and JSON as the last line; WorkError if a folder holds no repository."""
    rows, lines = measure(_cases(folders, commits)), list(_typed(folders))
    found: dict[str, Mapping[str, Figures | ImportFigures]] = {
        after: {name: figures(by_rules(part, rules), *kinds) for name, part in _by_language(rows).items()}
        for after, *kinds, rules in GROUPS
    }
    found["an unknown name"] = {name: import_figures(part) for name, part in _by_language(lines).items()}
    for after, by_language in found.items():
        Console(width=WIDTH).print(_table(after, by_language))
    times = _milliseconds(rows)
    print(f"One proposal takes {times['p50']} ms, {times['p95']} ms at the 95th percentile.")
    plain = {after: {name: each._asdict() for name, each in lines.items()} for after, lines in found.items()}
    print(json.dumps(plain | {"milliseconds": times}))


def _typed(folders: Sequence[Path]) -> Iterator[ImportRow]:
    for folder in folders:
        yield from typed(folder)


def _by_language(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by people's name of their language, and all of them."""
    languages = sorted({row.language for row in rows})
    return {name_of(each): [row for row in rows if row.language == each] for each in languages} | {"all": [*rows]}


def _cases(folders: Sequence[Path], commits: int) -> list[EditScenario]:
    cases = [case for folder in folders for case in scenarios(Repository(folder), commits)]
    if not cases:
        raise WorkError("no commit of these repositories changes tokens alike; name others, or raise --commits")
    return cases


def _table(after: str, lines: Mapping[str, Figures | ImportFigures]) -> Table:
    table = Table(title=f"After {after}", title_justify="left")
    for head in ("language", *(name.replace("_", " ") for name in lines["all"]._fields)):
        table.add_column(head, justify="left" if head == "language" else "right")
    for name, each in lines.items():
        table.add_row(name, *(f"{cell:.1%}" if isinstance(cell, float) else str(cell) for cell in each))
    return table


def _milliseconds(rows: Iterable[OfferRow]) -> dict[str, float]:
    times = [row.milliseconds for row in rows]
    return {f"p{share}": round(float(np.percentile(times, share)), 1) for share in (50, 95)}
