"""`python -m efim_lab bench reuse` on a tiny model and a tiny repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.studies.reuse import command
from efim_lab.studies.reuse.command import run_reuse
from efim_lab.studies.reuse.places import choose_reuse_places, definitions
from efim_lab.studies.reuse.scenarios import other_branch, other_layout
from model_runtime.errors import ModelError
from tests.models import CODE, Tiny, make

TEXTS = {
    name: CODE.replace("Record", name).replace("total", f"all_{name}") for name in ("Entry", "Line", "Row", "Key")
}
SMALL = {
    "places.LONGEST_EXCERPT": 160, "policies.locret.STEPS": 2, "budgets.SHARES": (0.25,), "budgets.BEFORE": 300,
    "budgets.AFTER": 100, "scenarios.BEFORE": 800, "scenarios.AFTER": 100, "methods.composition.NEW_TOKENS": 3,
    "budgets.NEW_TOKENS": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "package"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.py").write_text(text)
    return folder.parent


def test_a_measurement_says_the_same_twice(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "TRAINING", 1)
    for name, value in SMALL.items():
        monkeypatch.setattr(f"efim_lab.studies.reuse.{name}", value)
    folder, reports = make(tmp_path / "tiny", Tiny(context=2048)), list[dict[str, list[dict[str, Any]]]]()
    for _ in range(2):
        run_reuse(repository, folder, 1, tmp_path / "reuse.png")
        reports.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
        for row in (*reports[-1]["composition"], *reports[-1]["budgets"]):
            del row["ms"]
    assert reports[0] == reports[1]
    assert (tmp_path / "reuse.png").stat().st_size > 10_000
    rows = {(row["changed"], row["method"]): row for row in reports[0]["composition"]}
    assert rows["cold", "exact"]["recomputed"] == rows["cold", "exact"]["tokens"]
    for changed in ("context", "formatter", "branch", "jump"):
        counts = [rows[changed, name]["recomputed"] for name in ("rotation only", "EPIC, 16 rows", "repair, 32 rows")]
        assert counts == sorted(counts)
        assert rows[changed, "exact"]["kl"] == 0.0
    kept = {row["policy"]: row for row in reports[0]["budgets"]}
    assert kept["all rows"]["kl"] == 0.0 and kept["no context"]["bytes"] == 0.0


def test_places_have_excerpts_of_other_files_alone() -> None:
    documents = [CodeDocument(f"package/{name}.py", text) for name, text in TEXTS.items()]
    places = choose_reuse_places(documents, 5)
    assert len(places) == 5 and places == choose_reuse_places(documents, 5)
    for place in places:
        assert all(each.path != place.file for each in (*place.excerpts, place.spare))
        assert place.text == dict((each.path, each.text) for each in documents)[place.file]


def test_data_without_a_repository_is_refused() -> None:
    with pytest.raises(WorkError, match="several files"):
        choose_reuse_places([CodeDocument("a.py", CODE)], 3)


def test_a_model_with_a_short_context_is_refused(folder: Path, repository: Path) -> None:
    with pytest.raises(ModelError, match="too short"):
        run_reuse(repository, folder, 1, None)


def test_another_layout_and_another_branch_keep_most_lines() -> None:
    lines = set(CODE.split("\n"))
    for changed in (other_layout(CODE), other_branch(CODE, "def other():\n    return 1\n")):
        assert changed != CODE and len(lines & set(changed.split("\n"))) > 0.7 * len(lines)
    long = "    value = compute_the_total_of_everything(first_argument, second_argument, third)"
    assert other_layout(long).split("\n")[1:] == ["        first_argument, second_argument, third,", "    )"]
    assert definitions("x = (") == []
