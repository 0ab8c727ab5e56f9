"""`eval --repository`: measures models at places of repositories, with and without what their files say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.held_out import Progress, model_name
from efim_lab.studies.repository.data import read_repositories
from efim_lab.studies.repository.measurement import measure
from efim_lab.studies.repository.places import choose_places
from efim_lab.studies.repository.report import as_json, report, table


def measure_repositories(
    paths: Sequence[Path], folders: Sequence[Path], count: int, typed: int, progress: Progress
) -> str:
    """Measure every model at up to `count` places of each kind, and type the first `typed` of each.

    Without paths, the repositories are the installed packages that are held out.
    Returns tables, and one JSON object as the last line. Raises WorkError and ModelError.
    """
    repositories = read_repositories(paths)
    places = choose_places([each.documents for each in repositories], count)
    if not places:
        raise WorkError("the data has no line of Python that can be read: name a repository's folder")
    documents = [document for each in repositories for document in each.documents]
    reports = [report(model_name(folder), measure(folder, documents, places, typed, progress)) for folder in folders]
    data = [{"name": each.name, "version": each.version, "files": len(each.documents)} for each in repositories]
    found = {"repositories": data, "models": [as_json(each) for each in reports]}
    return f"{table(repositories, reports)}\n\n{json.dumps(found)}"
