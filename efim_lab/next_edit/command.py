"""`next-edit`: measures what the rules offer in histories of repositories, or fits how sure they are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from efim_lab.errors import WorkError
from efim_lab.next_edit.fit import fit
from efim_lab.next_edit.histories import Repository
from efim_lab.next_edit.measure import Figures, OfferRow, by_rules, figures, measure
from efim_lab.next_edit.scenarios import EditScenario, Kind, scenarios
from efim_ls.languages import name_of
from efim_ls.next_edit.rules.table import RULES

WIDTH = 110  # of tables
# After what, the kinds of scenarios, and whose offers count: after a definition, names are replaced in its body, too.
GROUPS: tuple[tuple[str, Kind, Kind, Collection[str]], ...] = (
    ("two edits", "three", "two", RULES),
    ("one edit", "rename", "one", RULES),
    ("two edits that differ", "transform", "pair", RULES),
    ("a definition", "signature", "definition", ("signature",)),
)


def run_fit(folders: Sequence[Path], commits: int) -> None:
    """Print the weights of each rule's features as JSON; WorkError if a folder holds no repository."""
    cases = _cases(folders, commits)
    print(json.dumps({rule: {k: round(v, 2) for k, v in fit(rule, cases).items()} for rule in RULES}, indent=4))


def run_measure(folders: Sequence[Path], commits: int) -> None:
    """Print figures by language, and JSON as the last line; WorkError if a folder holds no repository."""
    rows = measure(_cases(folders, commits))
    languages = sorted({row.language for row in rows})
    by_language = {name_of(each): [row for row in rows if row.language == each] for each in languages}
    found = {
        after: {
            name: figures(by_rules(part, rules), positive, negative)
            for name, part in (*by_language.items(), ("all", rows))
        }
        for after, positive, negative, rules in GROUPS
    }
    for after, lines in found.items():
        Console(width=WIDTH).print(_table(after, lines))
    times = _milliseconds(rows)
    print(f"One proposal takes {times['p50']} ms, {times['p95']} ms at the 95th percentile.")
    plain = {after: {name: each._asdict() for name, each in lines.items()} for after, lines in found.items()}
    print(json.dumps(plain | {"milliseconds": times}))


def _cases(folders: Sequence[Path], commits: int) -> list[EditScenario]:
    cases = [case for folder in folders for case in scenarios(Repository(folder), commits)]
    if not cases:
        raise WorkError("no commit of these repositories changes tokens alike; name others, or raise --commits")
    return cases


def _table(after: str, lines: dict[str, Figures]) -> Table:
    table = Table(title=f"After {after}", title_justify="left")
    heads = ("language", "to be found", "found", "wrong", "to be silent", "loud", "precision", "without the silent")
    for head in heads:
        table.add_column(head, justify="left" if head == "language" else "right")
    for name, each in lines.items():
        table.add_row(name, *(f"{cell:.1%}" if isinstance(cell, float) else str(cell) for cell in each))
    return table


def _milliseconds(rows: Iterable[OfferRow]) -> dict[str, float]:
    times = [row.milliseconds for row in rows]
    return {f"p{share}": round(float(np.percentile(times, share)), 1) for share in (50, 95)}
