"""All languages by LSP's names: which a client means, which a file is written in, what people call them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from efim_ls.languages.forms.language import Language
from efim_ls.languages.records import c, go, java, others, php, python, ruby, rust, script, shell

JSX = " JSX"  # ends the name of a dialect
ANY = "*"  # in place of a language: all of them
UNKNOWN = Language("", "")
GUESSED, LONGEST_TELLING = 200, 300  # lines of a text that tell its language, and their characters that are looked at


class _ByName(dict[str, Language]):
    """Languages by LSP's names, in any letters; others are `UNKNOWN`."""

    def __missing__(self, name: str) -> Language:
        return self.get(name.lower(), UNKNOWN)


def by_name(languages: Iterable[Language]) -> Mapping[str, Language]:
    """Return languages by LSP's names; the first of each name. A dialect is its language with another name."""
    listed = _ByName({"": python.UNNAMED})
    for each in languages:
        listed.setdefault(each.id, each)
    for each in [each for each in listed.values() if each.dialect_of]:
        of, own = listed[each.dialect_of], {name: getattr(each, name) for name in ("id", "name", "endings", "also")}
        listed[each.id] = replace(of, **own, family=of.family or of.id, dialect_of=of.id, telling="")
    return listed


MODULES = (python, script, go, rust, java, c, ruby, php, shell, others)  # a row for each file of languages
LANGUAGES: Mapping[str, Language] = by_name(each for module in MODULES for each in module.LANGUAGES)
PROSE = tuple(each.id for each in LANGUAGES.values() if each.is_prose)
NAMES = {name: each.id for each in LANGUAGES.values() for name in (each.name.lower(), *each.also.split(", ")) if name}
ENDINGS = {ending: each.id for each in LANGUAGES.values() for ending in each.endings.split()}


def language_named(name: str, path: str = "") -> str:
    """Return the language that a client names; of a name in parts, as Vim has them, the first that is known.

    `typescript.tsx` and `javascript.jsx` are the dialects, `python.django` is Python. A client that calls `App.tsx`
    TypeScript means the dialect. `path` may be a URI.
    """
    name = name if name.lower() in LANGUAGES else NAMES.get(name.lower(), name)
    if (tags := LANGUAGES[name].tags) and language_of(path) == tags:
        return tags
    parts = [each for each in name.split(".") if each]
    if name.lower() in LANGUAGES or len(parts) < 2:
        return name
    known = next((each for each in parts if each.lower() in LANGUAGES), parts[0])
    dialect = LANGUAGES[known].tags
    return dialect if {"tsx", "jsx"}.intersection(each.lower() for each in parts) and dialect else known


def language_of(path: str) -> str:
    """Return the language of a file by its suffix, or by its name if that has none; empty if it is not listed."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    return "" if stem.startswith(".") and not suffix else ENDINGS.get((suffix or stem).lower(), "")


def guess_language(text: str) -> str:
    """Return the language that a part of a file is most likely in: Python, unless its lines tell another."""
    lines = [line[:LONGEST_TELLING] for line in text.split("\n", GUESSED)[:GUESSED]]
    counts = {language: sum(bool(each.search(line)) for line in lines) for language, each in _telling().items()}
    return max(counts, key=lambda language: counts[language])


@cache
def _telling() -> Mapping[str, re.Pattern[str]]:
    """Compile what tells a language when a text is first guessed: no editor's start waits for that."""
    telling = [each for each in LANGUAGES.values() if each.telling]
    return {each.id: re.compile(each.telling) for each in sorted(telling, key=lambda each: each.id != "python")}


def family_of(language: str) -> str:
    """Return the language that stands for all whose files share words with this one's."""
    return LANGUAGES[language].family or language.lower()


def name_of(language: str) -> str:
    """Return the name that people use for a language."""
    return LANGUAGES[language].name or language


def names_of(languages: Iterable[str]) -> list[str]:
    """Return the names that people use for languages; a dialect is not named if its language is."""
    listed = {each.lower(): name_of(each) for each in languages}
    return [
        name
        for each, name in listed.items()
        if LANGUAGES[each].dialect_of not in listed
        and (name.removesuffix(JSX) == name or name.removesuffix(JSX) not in listed.values())
    ]


def known_as(language: str) -> tuple[str, ...]:
    """Return the names by which a model may know a language: its own, and the language of which it is a dialect."""
    return tuple(filter(None, (language.lower(), LANGUAGES[language].dialect_of)))


def with_dialects(languages: Collection[str]) -> tuple[str, ...]:
    """Return languages that a model knows, followed by their dialects."""
    known = {each.lower() for each in languages}
    return tuple(dict.fromkeys((*languages, *(each.id for each in LANGUAGES.values() if each.dialect_of in known))))


def knows(languages: Collection[str], language: str) -> bool:
    """Return whether a model that knows these languages knows this one; it is asked if the language has no name."""
    known = {language_named(each).lower() for each in languages}
    return not language or ANY in languages or not known.isdisjoint(known_as(language))


def notice(model: str, languages: Sequence[str], language: str) -> str | None:
    """Return a sentence for users if the model does not know a language, else None.

    `model` is its name or folder, empty for embedded models.
    """
    if knows(languages, language):
        return None
    known, wanted = listed(names_of(languages)), name_of(language)
    which = f"model {model} knows" if model else "embedded models know"
    remedy = f"Choose a model that knows {wanted} with the setting 'model'."
    if not model and (wheel := LANGUAGES[language].wheel):
        remedy = f"Install the wheel {wheel}, whose model knows {wanted}."
    return f"The {which} {known} only; here suggestions come from this file's own phrases. {remedy}"


def listed(names: Sequence[str]) -> str:
    """Return names as an enumeration."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
