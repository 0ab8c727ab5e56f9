"""The arms of a repository's measurement: what the server knows of a document's other files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model_runtime.shelves.excerpts.excerpts import PLACES, ExcerptPlace


@dataclass(frozen=True, eq=False)
class RepositoryArm:
    """The server with one kind of knowledge of a repository's other files.

    With `counts`, requests carry the counts over them. Their text is `shown` in some places of the prompts; similar
    code is `retrieved` where the server does it, which is unsure, or everywhere. The report compares the arm with an
    earlier arm, `less`.
    """

    name: str
    counts: bool = False
    shown: tuple[ExcerptPlace, ...] = ()
    retrieved: Literal["where unsure", "everywhere"] = "where unsure"
    less: str = "memory"


ALONE = RepositoryArm("the file alone", less="")  # its completions are known without the repository
ARMS = (
    ALONE,
    RepositoryArm("memory", True, less=ALONE.name),
    RepositoryArm("memory, repository's signatures", True, ("signatures",)),
    RepositoryArm("memory, imported signatures", True, ("imports",)),
    RepositoryArm("memory, similar code where unsure", True, ("similar",)),
    RepositoryArm("memory, similar code everywhere", True, ("similar",), "everywhere"),
    RepositoryArm("memory, all three", True, PLACES),
)
