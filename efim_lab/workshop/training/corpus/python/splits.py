"""Keeps the packages that measure, or that settings are fitted to, out of the training text."""

import re

from efim_lab.gate.held_out_packages import HELD_OUT, MEASURED, TUNING
from efim_lab.workshop.training.corpus.language import Splits


def canonical(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _covers(listed: str, name: str) -> bool:
    return canonical(name) == listed


SPLITS = Splits(apart={"heldout": HELD_OUT, "tuning": TUNING}, measured=MEASURED, covers=_covers)
_NOT_LEARNT = SPLITS.measured.union(*SPLITS.apart.values())
_ONE_FILE = frozenset({"bottle", "peewee"})
_CARRIERS = frozenset({"", "bundled", "contrib", "deps", "lib", "libs", "packages", "thirdparty", "third-party"})


def holds_copy(path: str) -> bool:
    """Return whether a file in a distribution looks like a copy of a package not trained on, by its relative path.

    A copy lies at the top, or in a folder for the code of others, or anywhere if the package is one file. Other
    modules of such a name, such as sqlalchemy/ext/asyncio, are the distribution's own code about that package.
    """
    parts = [canonical(part) for part in path.removesuffix(".py").split("/")]
    carried = [part for before, part in zip(["", *parts], parts, strict=False) if before in _CARRIERS]
    return not _NOT_LEARNT.isdisjoint(carried) or parts[-1] in _ONE_FILE
