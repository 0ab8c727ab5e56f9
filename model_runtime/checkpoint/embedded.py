"""The models that are installed with this package or with others, and which of them answers in a language."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

_SHIPPED = Path(__file__).parents[1] / "embedded"
EMBEDDED = _SHIPPED / "python"  # the model of languages that have no other
# The models of this package, by LSP's names of the languages that each knows. Go's is in the same folder in a clone;
# it is installed as a separate package.
SHIPPED: Mapping[str, Path] = {
    "python": EMBEDDED,
    **dict.fromkeys(("javascript", "javascriptreact", "typescript", "typescriptreact"), _SHIPPED / "typescript"),
}
ENTRY_POINTS = "efim_ls.models"  # each names a language, as LSP does, and the package that is its model's folder

logger = logging.getLogger(__name__)


def embedded_for(language: str) -> Path | None:
    """Return the folder of the model that knows a language, by LSP's name; None if none is installed."""
    return SHIPPED.get(language.lower()) or installed().get(language.lower())


def embedded_models() -> Mapping[Path, tuple[str, ...]]:
    """Return the languages of each model, by its folder; models of this package first."""
    table = {**SHIPPED, **installed()}
    return {folder: tuple(name for name in table if table[name] == folder) for folder in table.values()}


@cache
def installed() -> Mapping[str, Path]:
    """Return the models of other packages, by the languages that they know.

    Looked up once, when a language is first met that no model of this package knows; nothing of them is imported.
    """
    found = dict[str, Path]()
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: (each.name, each.value)):
        language = point.name.lower()
        if language in found or language in SHIPPED:
            logger.warning(
                "%s is left out: %s has a model already; name its folder in `model`", point.value, language
            )
        elif folder := _folder(point):
            found[language] = folder
    return found


def _folder(point: EntryPoint) -> Path | None:
    """Return the folder of an entry point's package, None with a warning if it has no model."""
    spec = find_spec(point.value) if point.value.isidentifier() else None
    places = spec.submodule_search_locations if spec else None
    folder = Path(places[0]) if places else None
    if folder is None or not all((folder / name).is_file() for name in ("config.json", "tokenizer.json")):
        logger.warning("%s is no package with a model: install it again, or remove it", point.value)
        return None
    return folder
