"""`python -m efim_lab eval` from its arguments to the JSON object in its last line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from efim_lab.gate.commands import cli
from efim_lab.gate.evaluation.inside_line import SERVED
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.engine.evaluating import with_ngrams, write_tasks
from tests.models import CODE, Tiny, make


@pytest.fixture(scope="module")
def caching(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with n-grams."""
    return with_ngrams(folder, tmp_path_factory.mktemp("caching") / "model")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text(CODE)
    return folder


def last_line(capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, Any]]:
    out = capsys.readouterr().out
    return out, json.loads(out.splitlines()[-1])


def test_the_command_compares_models(
    code: Path, caching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make(tmp_path / "other", Tiny(seed=3))
    models = ["--model", str(caching), "--model", str(other)]
    tasks = ["--humaneval", str(write_tasks(tmp_path / "tasks"))]
    assert cli.main(["eval", "--data", str(code), *models, "--lines", "3", "--typed", "1", *tasks]) == 0
    out, found = last_line(capsys)
    assert found["data"] == str(code)
    assert [(each["model"], each["lines"]) for each in found["models"]] == [(str(caching), 3), (str(other), 3)]
    assert [len(each["arms"]) for each in found["models"]] == [8, 7]
    assert [each["inside_line"]["holes"] for each in found["models"]] == [3, 3]
    assert found["models"][1]["inside_line"]["ways"][SERVED]["shown"].keys() == {"value", "low", "high"}
    assert found["models"][0]["arms"]["FIM"]["exact"].keys() == {"value", "low", "high"}
    assert found["models"][1]["humaneval"]["random span"]["server"].keys() == {"value", "low", "high"}
    assert [out.count(f"| server, {each} ") for each in (caching, other)] == [6, 6]  # one row in each table
    assert [out.count(f"| {SERVED}, {each} ") for each in (caching, other)] == [1, 1]
    assert "| single line %, 2 tasks | multi-line %, 2 tasks | random span %, 2 tasks |" in out


def test_the_command_only_types_lines_of_a_split(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("click", "httpx", "other"):
        (tmp_path / "code" / package).mkdir(parents=True)
        (tmp_path / "code" / package / "a.py").write_text(CODE)
    data = ["eval", "--data", str(tmp_path / "code"), "--model", str(folder), "--only-typing", "--open", "0"]
    assert cli.main([*data, "--typed", "2", "--split", "tuning", "--rows", str(tmp_path / "rows")]) == 0
    out, found = last_line(capsys)
    (model,) = found["models"]
    assert model.keys() == {"model", "typing", "ghosts"}
    assert model["ghosts"].keys() == {"server", "server, repository"}
    rows = [json.loads(row) for row in (tmp_path / "rows").read_text().splitlines()]
    assert {row["package"] for row in rows} == {"click"}
    of_server = [row for row in rows if row["arm"] == "server"]
    assert model["ghosts"]["server"]["all"]["ghosts"] == sum(row["is_new"] for row in of_server)
    assert model["ghosts"]["server"]["all"]["keys"] == len(of_server)
    assert "Distinct ghost texts" in out and "held-out lines" not in out
    assert cli.main([*data[:2], str(tmp_path / "code" / "other"), "--split", "heldout"]) == 2
    assert "has no code of aiohttp, " in capsys.readouterr().err


def test_the_command_types_whole_texts(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, rows = tmp_path / "texts.toml", tmp_path / "rows"
    beside = "[[file]]\npath = 'b.py'\ntext = 'total = items\\n'\n"
    texts.write_text(f"[[text]]\npath = 'a.py'\ntext = 'if total:\\n    total = 1\\n'\n{beside}".replace("'", '"'))
    assert cli.main(["eval", "--texts", str(texts), "--model", str(folder), "--rows", str(rows)]) == 0
    out, found = last_line(capsys)
    assert {arm: each["all"]["keys"] for arm, each in found["models"][0]["ghosts"].items()} == {
        "alone": 19,
        "project": 19,
    }
    assert out.count("| alone ") == 3 and "Typing 2 lines of 1 files, 19 keys" in out
    assert [json.loads(row)["arm"] for row in rows.read_text().splitlines()] == ["alone"] * 19 + ["project"] * 19
    texts.write_text("")
    assert cli.main(["eval", "--texts", str(texts)]) == 2
    assert "has no text to type" in capsys.readouterr().err


def test_the_command_measures_the_embedded_model(code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", "--data", str(code), "--lines", "1", "--open", "0"]) == 0
    out, found = last_line(capsys)
    assert (found["models"][0]["model"], found["models"][0]["humaneval"]) == ("embedded", None)
    assert "pass@1" not in out


def test_the_command_measures_a_language_that_the_model_does_not_know(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.ts").write_text("  for (const product of products) {\n    sum += product.price;\n  }\n" * 9)
    (tmp_path / "a.py").write_text("not = read")
    data = ["--data", str(tmp_path), "--model", str(folder)]
    assert cli.main(["eval", "--language", "typescript", *data, "--lines", "6"]) == 0
    out, found = last_line(capsys)
    assert "TypeScript, 6 places" in out and found["language"] == "typescript"
    served = found["arms"]["phrases, 50% sure or more: the server"]
    assert served["shown"]["value"] >= 0.5 and served["right"]["value"] > 0.5
    assert "the model, as if it knew the language" in found["arms"]
    known = ["--model", str(EMBEDDED.with_name("typescript")), "--lines", "2", "--typed", "1", "--open", "0"]
    assert cli.main(["eval", "--language", "typescript", "--data", str(tmp_path), *known]) == 0
    assert last_line(capsys)[1]["models"][0]["typing"]["places"] == 2, "a model that knows it is asked nothing else"
    assert cli.main(["eval", "--language", "go", *data]) == 2
    assert "folder of Go files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (
            ["--data", "none"],
            2,
            "none cannot be read (No such file or directory): make it with",
        ),
        ([], 2, "eval measures one set of code: name it with --data"),
        (["--data", "code", "--data", "code"], 2, "eval measures one set of code"),
        (["--data", "empty.jsonl"], 2, "empty.jsonl has no code"),
        (["--data", "bad.jsonl"], 2, "bad.jsonl is damaged"),
        (["--data", "code", "--model", "none"], 1, "none"),
        (["--data", "code", "--humaneval", "code"], 2, "code has no HumanEval-SingleLineInfilling.jsonl.gz"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    status: int,
    complaint: str,
    code: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(code.parent)
    Path("empty.jsonl").write_text("")
    Path("bad.jsonl").write_text("{")
    assert cli.main(["eval", *arguments]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m efim_lab: ") and complaint in err and err.count("\n") == 1


def test_arguments_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        cli.main(["eval", "--data", "x", "--lines", "0"])
    assert exit.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_lines_without_code_after_a_span_are_no_holes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("pass\n")
    assert cli.main(["eval", "--data", str(tmp_path), "--lines", "1"]) == 0
    assert last_line(capsys)[1]["models"][0]["inside_line"] == {"holes": 0, "ways": {}}


def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    for name in [name for name in sys.modules if name.startswith("efim_lab.gate.evaluation")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    assert cli.main(["eval", "--data", str(tmp_path)]) == 1
    assert (
        capsys.readouterr().err
        == "python -m efim_lab: rapidfuzz is not installed: run pip install --editable '.[gate]' in the clone\n"
    )


def test_the_command_asks_by_a_key(caching: Path, code: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["eval", "--data", str(code), "--model", str(caching)]
    assert cli.main([*data, "--by-key", "--lines", "2"]) == 0
    out, found = last_line(capsys)
    (model,) = found["models"]
    arms = [f"{kind}, {arm}" for kind in ("in lines", "statements", "all") for arm in ("alone", "workspace")]
    assert [*model["by_key"]] == arms and [model["by_key"][arm]["places"] for arm in arms] == [2, 2, 2, 2, 4, 4]
    assert all(out.count(f"| {arm} ") == 1 for arm in arms)
    assert model["by_key"]["all, alone"]["right_in_any"].keys() == {"value", "low", "high"}
