"""The languages that a corpus can be gathered of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from efim_lab.workshop.training.corpus import filters
from efim_lab.workshop.training.corpus.comments import clean_comments, without_opening_notices
from efim_lab.workshop.training.corpus.debian.languages import LANGUAGES as OF_DEBIAN
from efim_lab.workshop.training.corpus.go import packages as go_packages
from efim_lab.workshop.training.corpus.go.splits import SPLITS as GO_SPLITS
from efim_lab.workshop.training.corpus.javascript import code as javascript_code
from efim_lab.workshop.training.corpus.javascript import packages as javascript_packages
from efim_lab.workshop.training.corpus.javascript.splits import SPLITS as JAVASCRIPT_SPLITS
from efim_lab.workshop.training.corpus.language import CorpusLanguage, no_snippets
from efim_lab.workshop.training.corpus.python import cleanup, examples, repetition, sources, wheels
from efim_lab.workshop.training.corpus.python.splits import SPLITS as PYTHON_SPLITS
from efim_ls.languages.table import listed

LANGUAGES = {
    each.name: each
    for each in (
        CorpusLanguage(
            name="python",
            title="Python",
            known=("python",),
            splits=PYTHON_SPLITS,
            fetch=wheels.fetch,
            fetched=wheels.fetched,
            found_in=sources.found_in,
            looks_written=filters.looks_written,
            without_notices=cleanup.without_notices,
            clean=cleanup.clean,
            snippets=examples.snippets,
            thinned=repetition.without_repetition,
            folders=sources.running_python_folders,
        ),
        CorpusLanguage(
            name="typescript",
            title="TypeScript and JavaScript",
            known=("javascript", "javascriptreact", "typescript", "typescriptreact"),
            splits=JAVASCRIPT_SPLITS,
            fetch=javascript_packages.fetch,
            fetched=javascript_packages.fetched,
            found_in=javascript_packages.found_in,
            looks_written=javascript_code.looks_written,
            without_notices=without_opening_notices,
            clean=javascript_code.clean,
            snippets=javascript_code.snippets,
        ),
        CorpusLanguage(
            name="go",
            title="Go",
            known=("go",),
            splits=GO_SPLITS,
            fetch=go_packages.fetch,
            fetched=go_packages.fetched,
            found_in=go_packages.found_in,
            looks_written=filters.looks_written,
            without_notices=without_opening_notices,
            clean=partial(clean_comments, language="go"),
            snippets=no_snippets,
        ),
        *OF_DEBIAN,
    )
}


def titles(names: Sequence[str]) -> str:
    """Return what people call some of the languages, as an enumeration."""
    return listed([LANGUAGES[name].title for name in names])
