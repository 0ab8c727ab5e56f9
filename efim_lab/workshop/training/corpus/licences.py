"""Selects the distributions that may be trained on: their metadata states a permissive licence."""

import re
from email.message import Message
from typing import cast

PERMISSIVE = frozenset(
    """
    0bsd afl-2.1 apache apache-2 apache-2-llvm-exceptions apache-2.0 apache2 apache2.0 boost-1.0 bsd bsd-2
    bsd-2-clause bsd-2-clauses bsd-3 bsd-3-clause bsd-3-clauses bsd3 bsl-1 bsl-1.0 cc0 cc0-1.0 cnri-python curl
    edl-1.0 hpnd isc mit mit-0 mit-1 mit-cmu mit-x mit/x mit/x11 ncsa new-bsd ntp php-3.01 postgresql psf
    psf-2.0 psfl public-domain python-2.0 unlicense wtfpl x11 zlib zlib/libpng zpl-2.1
    """.split()  # noqa: SIM905 - shorter than a list
)
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
    "Historical Permission Notice and Disclaimer (HPND)": "HPND",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "Zope Public License": "ZPL-2.1",
    "zlib/libpng License": "Zlib",
}


def stated_licence(metadata: Message) -> str:
    """Return the licence stated by License-Expression, else classifiers, else License; "" if there is none."""
    expression = cast("str | None", metadata["License-Expression"])
    if expression:
        return expression
    classifiers = metadata.get_all("Classifier", [])
    named = {c.split(" :: ")[-1] for c in classifiers if c.startswith("License :: ")} - {"OSI Approved"}
    if named:
        return " AND ".join(sorted(_CLASSIFIERS.get(name, name.replace(" ", "-")) for name in named))
    text = cast("str | None", metadata["License"]) or ""
    return "" if "\n" in text else text


def is_permissive(expression: str) -> bool:
    """Return whether permissive terms alone satisfy an SPDX-like expression; AND binds tighter than OR."""
    flat = re.sub(r"\s+with\s+[\w.-]+", "", expression, flags=re.IGNORECASE)
    while inner := re.search(r"\(([^()]*)\)", flat):
        flat = flat.replace(inner[0], "MIT" if _any_permissive(inner[1]) else "refused")
    return _any_permissive(flat)


def _any_permissive(choices: str) -> bool:
    return any(_all_permissive(choice) for choice in re.split(r"\s+or\s+", choices, flags=re.IGNORECASE))


def _all_permissive(choice: str) -> bool:
    terms = re.split(r"\s+and\s+|\s*,\s*", choice, flags=re.IGNORECASE)
    return all(_normal(term) in PERMISSIVE for term in terms)


def _normal(term: str) -> str:
    words = re.sub(r"\b(the|licen[cs]e|version|software|foundation)\b", " ", term.lower())
    return re.sub(r"[\s-]+", "-", words.strip(" .\"'")).strip("-")
