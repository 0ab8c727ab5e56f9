"""The changelog begins with what is unreleased; then come the releases, if there are any."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[4]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
KINDS = ["Added", "Changed", "Fixed", "Removed"]
LONGEST_LINE = 120  # characters: a change is one line
HEADINGS = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
RELEASES = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in HEADINGS[1:]]


def test_it_begins_with_what_is_unreleased_and_then_has_releases_with_their_days() -> None:
    assert HEADINGS[0] == "Unreleased" and all(RELEASES)
    days = [date.fromisoformat(release[2]) for release in RELEASES if release]
    assert days == sorted(days, reverse=True)


def test_the_packages_have_one_version_which_is_that_of_the_latest_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extension = json.loads((ROOT / "editor_clients" / "vscode" / "package.json").read_text("utf-8"))
    assert project["version"] == extension["version"]
    for latest in RELEASES[:1]:
        assert latest and latest[1] == project["version"]


def test_changes_are_sorted_by_kind_and_take_a_line_each() -> None:
    for section in re.split(r"^## .+$", CHANGELOG, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds]
    assert [line for line in CHANGELOG.splitlines() if len(line) > LONGEST_LINE or line.startswith(" ")] == []
