"""The arms of a repository's measurement: what the server knows of a document's other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SettingValues = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class RepositoryArm:
    """The server with one kind of knowledge: what its requests carry, and settings that differ from the defaults.

    With `memory`, requests carry the counts of the repository's other files. Text of those comes into prompts as far
    as the settings allow; similar code is `retrieved` where the server does it, which is unsure, or everywhere. What
    the arm brings is told beside the arm `less`, an earlier one.
    """

    name: str
    memory: bool = False
    settings: SettingValues = field(default_factory=dict[str, object])
    retrieved: Literal["where unsure", "everywhere"] = "where unsure"
    less: str = "memory"


def _reading(*names: str) -> SettingValues:
    return dict.fromkeys(names, True)


SIGNATURES, IMPORTED, SIMILAR = "repository_signatures", "imported_signatures", "similar_code"
ALONE = RepositoryArm("the file alone", less="")  # what it completes is known without the repository
ARMS = (
    ALONE,
    RepositoryArm("memory", True, less=ALONE.name),
    RepositoryArm("memory, repository's signatures", True, _reading(SIGNATURES)),
    RepositoryArm("memory, imported signatures", True, _reading(IMPORTED)),
    RepositoryArm("memory, similar code where unsure", True, _reading(SIMILAR)),
    RepositoryArm("memory, similar code everywhere", True, _reading(SIMILAR), "everywhere"),
    RepositoryArm("memory, all three", True, _reading(SIGNATURES, IMPORTED, SIMILAR)),
)
