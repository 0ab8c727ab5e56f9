"""The store's level on another machine, as the setting `shared_tier` says."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from efim_ls.settings import Settings


def shared_level(settings: Settings, form: int) -> dict[str, Any] | None:
    """Return the options of the level for blocks of a form, None if there is no such place."""
    if not settings.shared_tier.url:
        return None
    options = asdict(settings.shared_tier)
    patience = options.pop("patience_ms") / 1e3
    most_bytes = options.pop("bytes") or None
    return {**options, "patience": patience, "bytes": most_bytes, "form": form}
