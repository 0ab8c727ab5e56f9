"""Whether a header that is called C by its ending is C++: its text says so, or the other files in its folder do."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice

from efim_ls.languages.table import known_as, language_of

HEADER = ".h"
MOST_FILES = 5_000  # of a folder that are looked at
LONGEST = 200_000  # characters at the top of a header that are looked at
# Matches in lines that no C has outside comments and strings.
_CPP = re.compile(
    r"""^[ \t]*(?:
        (?:enum[ \t]+)?class[ \t]+(?:\w+(?:\([^)\n]*\))?[ \t]+)*[\w:]+(?:<[^;{\n]*>)?\s*[;:{]
        | (?:inline[ \t]+)?namespace[ \t]*(?:[ \t][\w:]+\s*[{=]|\s*\{)
        | template[ \t]*<
        | using[ \t]+(?:namespace[ \t]+[\w:]+[ \t]*;|[\w:]+[ \t]*[;=])
        | (?:public|protected|private)(?:[ \t]+\w+)?[ \t]*:(?!:)
        | \#[ \t]*include[ \t]*<\w+>
    ) | \bstd::\w""",
    re.MULTILINE | re.VERBOSE,
)
_HIDDEN = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
_ASKED = re.compile(r"(![ \t]*(?:defined[ \t]*\(?[ \t]*)?)?\b__cplusplus\b")


def header_language(language: str, path: str, text: str) -> str:
    """Return the language of a text, which is C++ if the text is a header that is called C and is C++.

    A client that calls it anything else is believed. `path` may be a URI.
    """
    if language.lower() != "c" or not path.lower().endswith(HEADER):
        return language
    return "cpp" if _says_cpp(text[:LONGEST]) or _is_among_cpp(path) else language


def _says_cpp(text: str) -> bool:
    lines = _HIDDEN.sub(lambda found: "\n" * found[0].count("\n") or " ", text).splitlines()
    return _CPP.search("\n".join(_for_c(lines))) is not None


def _for_c(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that a compiler of C reads: a header of C may have others, under `#ifdef __cplusplus`."""
    conditions = list[tuple[bool, bool]]()  # of each around a line: whether it asks for C++, and whether that is met
    for line in lines:
        if (found := _CONDITION.match(line)) is None:
            if (True, True) not in conditions:
                yield line
            continue
        kind, asked = found[1], _ASKED.search(found[2])
        if kind.startswith("if"):
            conditions.append((asked is not None, asked is not None and kind != "ifndef" and not asked[1]))
        elif conditions:
            asks, is_met = conditions.pop()
            if kind != "endif":
                conditions.append((asks, not is_met))


def _is_among_cpp(path: str) -> bool:
    """Return whether the sources in a header's folder are C++ and not C: those with its stem, else all."""
    folder, name = os.path.split(path)
    try:
        by_stem = _languages(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return False
    own = by_stem.get(_stem(name))
    return (own or frozenset[str]().union(*by_stem.values())) == frozenset({"cpp"})


@lru_cache(64)  # an index asks for each header of a folder
def _languages(folder: str, changed: int) -> Mapping[str, frozenset[str]]:
    """Return which of C and C++ the sources in a folder are in, by their stems; raises OSError."""
    found = defaultdict[str, frozenset[str]](frozenset)
    with os.scandir(folder) as entries:
        names = [each.name for each in islice(entries, MOST_FILES)]
    for name in names:
        if not name.lower().endswith(HEADER):
            found[_stem(name)] |= {"c", "cpp"}.intersection(known_as(language_of(name)))
    return {stem: languages for stem, languages in found.items() if languages}


def _stem(name: str) -> str:
    return os.path.splitext(name)[0].lower()
