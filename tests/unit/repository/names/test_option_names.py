"""An option is named in its folder, and by the row that enters it: the core knows nothing of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[4]
PRODUCT = ("efim_ls", "model_runtime", "kv_store")


class Option(NamedTuple):
    """What names an option, where its files are, and how many others may name it, a number that may only fall."""

    names: str
    places: tuple[str, ...]
    most: int


OPTIONS = {
    "composition": Option("(?i)compos", ("model_runtime/shelves/composition/",), 1),
    "experts on disk": Option(
        r"experts_on_disk|ExpertPlacement|PlacedExperts|ExpertRecord|least_slots|experts on disk|experts of a model",
        ("model_runtime/shelves/experts_on_disk/",),
        2,
    ),
    "snapshots": Option(
        r"states\.rule|StateRule|Snapshots|SNAPSHOTS|\.snapshots\b|kept_states", ("model_runtime/shelves/states/",), 2
    ),
    "windows": Option(r"windows\.rule|WindowRule|SLIDE_UNIT|KEPT_BEHIND", ("model_runtime/shelves/windows/",), 1),
    "isolated excerpts": Option('(?i)isolated(?!")', ("model_runtime/shelves/isolated/",), 2),
    "text of other files": Option(
        "(?i)excerpt",
        ("efim_ls/workspace/excerpts/", "model_runtime/shelves/excerpts/", "model_runtime/shelves/isolated/"),
        29,
    ),
    "transformers": Option(r"decoder\.hf\b", ("model_runtime/decoder/hf/",), 3),
    "GPU": Option(r"decoder\.gpu\b", ("model_runtime/decoder/gpu/",), 4),
    "shared tier": Option(r"shared_tier|kv_store\.shared", ("kv_store/shared/", "efim_ls/commands/team_cache.py"), 4),
}


def files_naming(option: Option) -> list[str]:
    paths = [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]
    places = {path.relative_to(ROOT).as_posix(): path for path in paths}
    names = re.compile(option.names)
    return [
        place
        for place, path in places.items()
        if not place.startswith(option.places) and names.search(path.read_text())
    ]


@pytest.mark.parametrize("name", OPTIONS)
def test_few_files_outside_of_its_folder_name_an_option(name: str) -> None:
    option = OPTIONS[name]
    assert all((ROOT / place).exists() for place in option.places)
    found = files_naming(option)
    print(f"{name}: {len(found)} files, of at most {option.most}: {', '.join(found)}")
    assert len(found) <= option.most
    assert option.most <= max(2, len(found)), "fewer name it: lower its number"
