"""Reads which licences hold for which files of a package of Debian.

The format of these notices is https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/.
"""

from __future__ import annotations

import fnmatch
import re
from pathlib import PurePath
from typing import NamedTuple

from efim_lab.workshop.training.corpus.licences import is_permissive

_STANZA = re.compile(r"\n[ \t]*\n")
_FIELD = re.compile(r"^(Files|License):[ \t]*(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
# What Debian calls licences that others know by other names.
_NAMES = {re.compile(r"\bexpat\b", re.IGNORECASE): "MIT", re.compile(r"\bGo\b"): "BSD-3-Clause"}


class Notice(NamedTuple):
    """The licence of most files of a package, empty if none is stated, and patterns of files that have others."""

    licence: str
    refused: tuple[str, ...]

    def permits(self, path: PurePath) -> bool:
        """Return whether no pattern fits a path, from any of its folders on: where they begin, nothing tells."""
        ends = ["/".join(path.parts[at:]) for at in range(len(path.parts))]
        return not any(fnmatch.fnmatchcase(end, pattern) for pattern in self.refused for end in ends)


def read_notice(text: str) -> Notice:
    """Read a notice; `licence` joins the permissive licences, or the general licences if one is not permissive."""
    general, permissive, refused = set[str](), set[str](), list[str]()
    for fields in (dict(_FIELD.findall(stanza)) for stanza in _STANZA.split(text)):
        files = [each for each in fields.get("Files", "").split() if not each.startswith("debian/")]
        licence = fields.get("License", "").partition("\n")[0].strip()
        for pattern, name in _NAMES.items():
            licence = pattern.sub(name, licence)
        if "*" in files:
            general.add(licence)
        elif files and is_permissive(licence):
            permissive.add(licence)
        else:
            refused += files
    if not all(is_permissive(each) for each in general):
        return Notice(" AND ".join(sorted(f"({each})" for each in general if each)), ())
    return Notice(" AND ".join(sorted(f"({each})" for each in general | permissive)) if general else "", (*refused,))
