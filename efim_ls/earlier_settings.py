"""What settings of the release before stand for: understood for one release, and told once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

ARENAS_MIB, HELD_MIB, COUNTS_MIB = 128, 64, 32  # defaults of the three limits that `memory_mib` replaces
WORDS = {"epic": "moved_text", "repair": "moved_text_carefully", "int8": "int8_on_disk"}

Given = Mapping[str, object]


def _nothing(given: Given) -> dict[str, Any]:
    return {}


class Removed(NamedTuple):
    """A setting of an earlier release: what users are told of it, and what its values mean now.

    `means` gets all settings as they were sent, and returns the settings that say the same now.
    """

    message: str
    meaning: str = ""  # for docs/settings.md
    means: Callable[[Given], dict[str, Any]] = _nothing


def _other_files(name: str) -> Removed:
    def means(given: Given) -> dict[str, Any]:
        return {"other_files": "on"} if given[name] is True and "other_files" not in given else {}

    return Removed(
        "is part of 'other_files' now: set that and delete this",
        "`true` means `other_files` `on`",
        means,
    )


def _renamed(name: str, new: str, also: str = "") -> Removed:
    def means(given: Given) -> dict[str, Any]:
        return {} if new in given else {new: given[name]}

    return Removed(f"is called {new!r} now{also}: set that and delete this", f"as `{new}`", means)


def _revision(given: Given) -> dict[str, Any]:
    model, revision = given.get("model"), given["revision"]
    return {"model": f"{model}@{revision}"} if model and revision and "@" not in str(model) else {}


def _memory(given: Given) -> dict[str, Any]:
    """Return the sum of the three old limits; `memory_mib` was that of phrases when the others were set."""
    limits = {"kv_memory_mib": ARENAS_MIB, "host_memory_mib": HELD_MIB, "memory_mib": COUNTS_MIB}
    wanted = [given.get(name, default) for name, default in limits.items()]
    return {"memory_mib": sum(each for each in wanted if isinstance(each, int))}


def _approximations(given: Given) -> dict[str, Any]:
    words = [WORDS[value] for name in ("disk_codec", "compose") if (value := str(given.get(name))) in WORDS]
    return {"approximations": words} if words and "approximations" not in given else {}


MEMORY = Removed(
    "is part of 'memory_mib' now, which limits all memory and not that of phrases alone: set that and delete this",
    "added to `memory_mib`, with the defaults of those that are not set (128, 64 and 32)",
    _memory,
)
APPROXIMATION = Removed(
    "is part of 'approximations' now: set that and delete this",
    "`compose` `epic` means `moved_text`, `repair` means `moved_text_carefully`, and `disk_codec` `int8` means "
    "`int8_on_disk` in `approximations`",
    _approximations,
)
REMOVED = {
    **dict.fromkeys(
        ("niceness", "memory_codec", "adaptive_confidence"), Removed("was removed and is ignored: delete it")
    ),
    **{name: _other_files(name) for name in ("repository_signatures", "imported_signatures", "similar_code")},
    "revision": Removed(
        "is part of 'model' now: write 'owner/name@revision' there and delete this",
        "written behind the name in `model`",
        _revision,
    ),
    "max_file_kib": Removed("was removed and is ignored, the limit is 4096 KiB: delete it"),
    "local_cache": Removed("was removed and is ignored, phrases of open files always count: delete it"),
    "tail_tokens": Removed("was removed and is ignored, it is a quarter of 'head_tokens': delete it"),
    "max_new_tokens": Removed("was removed and is ignored, it follows from 'max_lines': delete it"),
    "kv_memory_mib": MEMORY,
    "host_memory_mib": MEMORY,
    "compose": APPROXIMATION,
    "disk_codec": APPROXIMATION,
    "ahead_seconds_per_minute": _renamed("ahead_seconds_per_minute", "prefetch_seconds_per_minute"),
    "min_confidence": _renamed("min_confidence", "suggestions", ", which can be a word as well"),
}
