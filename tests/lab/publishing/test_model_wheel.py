"""A model becomes a wheel; once that is installed, the server answers with it in its languages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from efim_lab.workshop.training.command import main
from model_runtime.checkpoint.embedded import SHIPPED
from tests.waiting import HANG

TEXT = "export function area(width: number, height: number): number {\n  return width * "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says that it knows Lua, which no model of this package does."""
    folder = shutil.copytree(SHIPPED["typescript"], tmp_path_factory.mktemp("models") / "lua")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"programming_languages": ["lua", "luau"]}))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model of Lua\n")
    return folder


@pytest.fixture(scope="module")
def wheel(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    assert main(["wheel", "--model", str(model), "--name", "efim-ls-lua", "--out", str(out)]) == 0
    [wheel] = out.iterdir()
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    with ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def run(installed: Path, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-m", "efim_ls", *arguments], capture_output=True, text=True, env=env, timeout=HANG
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_has_the_models_files_its_entry_points_and_its_licence(wheel: Path, model: Path) -> None:
    assert wheel.name == "efim_ls_lua-1.0-py3-none-any.whl"
    with ZipFile(wheel) as archive:
        names = {name.removeprefix("efim_ls_lua/") for name in archive.namelist() if name.startswith("efim_ls_lua/")}
        entries = archive.read("efim_ls_lua-1.0.dist-info/entry_points.txt").decode()
        about = archive.read("efim_ls_lua-1.0.dist-info/METADATA").decode()
        assert archive.read("efim_ls_lua/model.safetensors") == (model / "model.safetensors").read_bytes()
    assert names == {path.name for path in model.iterdir()} | {"__init__.py"}
    assert entries.split() == ["[efim_ls.models]", "lua", "=", "efim_ls_lua", "luau", "=", "efim_ls_lua"]
    assert "License-Expression: Apache-2.0" in about and "# A model of Lua" in about


def test_it_is_listed_and_answers_in_its_language(installed: Path, tmp_path: Path) -> None:
    models = json.loads(run(installed, "models", "--json"))["models"]
    [found] = [each for each in models if each["name"] == "embedded, Lua and luau"]
    assert Path(found["folder"]) == installed / "efim_ls_lua" and found["setting"] == ""
    answers = list[dict[str, object]]()
    for name in ("area.lua", "area.ts"):
        (tmp_path / name).write_text(TEXT)
        place = f"{tmp_path / name}:2:{len(TEXT.splitlines()[1]) + 1}"
        answers.append(json.loads(run(installed, "complete", "--json", place)))
    assert answers[0]["text"] == answers[1]["text"] and str(answers[0]["text"]).startswith("height")
    assert answers[0]["notice"] is None


@pytest.mark.parametrize(
    ("languages", "name", "complaint"),
    [(["lua"], "Efim_LS", "no name of a package"), ([], "efim-ls-lua", "names no languages")],
)
def test_what_cannot_be_packed_is_told(
    languages: list[str], name: str, complaint: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    config = json.loads((model / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"programming_languages": languages}))
    arguments = ["wheel", "--model", str(tmp_path / "model"), "--name", name, "--out", str(tmp_path / "dist")]
    assert main(arguments) == 1
    assert complaint in capsys.readouterr().err and not (tmp_path / "dist").exists()


def test_a_folder_without_weights_is_told(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    shutil.copy(model / "config.json", tmp_path / "model")
    arguments = ["wheel", "--model", str(tmp_path / "model"), "--name", "efim-ls-lua", "--out", str(tmp_path)]
    assert main(arguments) == 1
    assert "safetensors" in capsys.readouterr().err
