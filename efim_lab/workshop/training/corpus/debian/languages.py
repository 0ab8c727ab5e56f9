"""Rust, Java, C, C++, Ruby, PHP and shell as corpora know them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from efim_lab.workshop.training.corpus import filters
from efim_lab.workshop.training.corpus.comments import clean_comments, without_opening_notices
from efim_lab.workshop.training.corpus.debian import splits
from efim_lab.workshop.training.corpus.debian.package import PackagedLanguage, unwanted
from efim_lab.workshop.training.corpus.debian.rust import snippets
from efim_lab.workshop.training.corpus.language import CorpusLanguage, no_snippets
from efim_ls.languages.headers import header_language

_INTERPRETER = re.compile(r"#!.*\b(?:ba|da|k)?sh\b")
_CRATE = re.compile(r"librust-(.*)-dev")


def _crate(package: str) -> str:
    """Return the crate that a package of Debian brings, with a version if the name has one."""
    found = _CRATE.fullmatch(package)
    return found[1] if found else package


def _is_c(path: Path) -> bool:
    return path.suffix != ".h" or header_language("c", str(path), _text(path)) == "c"


def _is_cpp(path: Path) -> bool:
    return path.suffix != ".h" or not _is_c(path)


def _is_shell(path: Path) -> bool:
    text = _text(path)
    return bool(_INTERPRETER.match(text) if text.startswith("#!") else path.suffix)


def _text(path: Path) -> str:
    return path.read_text("utf-8", errors="replace") if path.is_file() else ""


PACKAGED = (
    PackagedLanguage("rust", "Rust", splits.RUST, (".rs",), unwanted(r"(^|/)build\.rs$|_tests?\.rs$"), named=_crate),
    PackagedLanguage(
        "java", "Java", splits.JAVA, (".java",),
        unwanted(r"(^|/)((package|module)-info|\w*Tests?|\w*TestCase|Test\w*)\.java$"), are_sources=True,
    ),
    PackagedLanguage(
        "c", "C", splits.C, (".c", ".h"),
        unwanted(r"(^|/)(test[-_.]|config\.h|y\.tab|lex\.yy)|[-_](test|wrap|generated)\.[ch]$|\.(tab|pb|pb-c)\.[ch]$"),
        are_sources=True, is_chosen=_is_c,
    ),
    PackagedLanguage(
        "cpp", "C++", splits.C, (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"),
        unwanted(r"(^|/)(test[-_.]|moc_|qrc_|ui_|config\.h)|[-_](test|tests|unittest|wrap|generated)\.\w+$|\.pb\.\w+$"),
        are_sources=True, is_chosen=_is_cpp,
    ),
    PackagedLanguage(
        "ruby", "Ruby", splits.RUBY, (".rb", ".rake", ".gemspec"), unwanted(r"(^|/)test_|_(test|spec)\.rb$")
    ),
    PackagedLanguage(
        "php", "PHP", splits.PHP, (".php",), unwanted(r"(^|/)(autoload\w*|\w*Tests?|\w*TestCase)\.php$")
    ),
    PackagedLanguage(
        "shellscript", "shell", splits.SHELL, ("", ".bash", ".sh"),
        unwanted(
            r"(^|/)(ltmain|autogen|bootstrap|configure|config\.\w+|install-sh|libtool|depcomp|missing|mkinstalldirs|"
            r"compile|test[-_.\w]*)(\.(ba)?sh)?$|[-_]test(\.sh)?$"
        ),
        are_sources=True, is_chosen=_is_shell,
    ),
)  # fmt: skip


LANGUAGES = tuple(
    CorpusLanguage(
        name=each.name,
        title=each.title,
        known=(each.name,),
        splits=each.splits,
        fetch=each.fetch,
        fetched=each.fetched,
        found_in=each.found_in,
        looks_written=filters.looks_written,
        without_notices=partial(without_opening_notices, language=each.name),
        clean=partial(clean_comments, language=each.name),
        snippets=snippets if each.name == "rust" else no_snippets,
    )
    for each in PACKAGED
)
