"""The arms of a repository's measurement: what the server knows of a document's other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SettingValues = Mapping[str, object]


@dataclass(frozen=True)
class RepositoryArm:
    """The server with one kind of knowledge: what its requests carry, and settings that differ from the defaults.

    With `memory`, requests carry the counts of the repository's other files.
    """

    name: str
    memory: bool = False
    settings: SettingValues = field(default_factory=dict[str, object])


ALONE = RepositoryArm("the file alone")  # what it completes is known without the repository
ARMS = (ALONE, RepositoryArm("memory", memory=True))
