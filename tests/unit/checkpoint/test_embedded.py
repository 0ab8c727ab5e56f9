"""Which embedded model answers in a language: those of this package, and those of others, found by entry points."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from efim_ls.languages.table import LANGUAGES
from model_runtime.checkpoint import embedded
from model_runtime.checkpoint.config import read_config, read_languages
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED, embedded_for, embedded_models, installed

Publish = Callable[..., Path]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publish]:
    """Install a package with a model, as a wheel would: its folder, and its entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    installed.cache_clear()

    def publish(name: str, *languages: str, files: tuple[str, ...] = ("config.json", "tokenizer.json")) -> Path:
        folder, about = tmp_path / name, tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        about.mkdir()
        (folder / "__init__.py").write_text("raise ImportError('nothing of it is imported')\n")
        for file in files:
            shutil.copy(EMBEDDED / file, folder)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{language} = {name}\n" for language in languages)
        (about / "entry_points.txt").write_text(f"[{embedded.ENTRY_POINTS}]\n{lines}")
        installed.cache_clear()
        return folder

    yield publish
    installed.cache_clear()


def test_each_model_of_this_package_says_that_it_knows_its_languages() -> None:
    assert set(SHIPPED) <= set(LANGUAGES)
    for folder in set(SHIPPED.values()):
        assert set(read_languages(folder)) == {language for language in SHIPPED if SHIPPED[language] == folder}


def test_all_embedded_models_have_one_shape_but_for_their_vocabularies() -> None:
    shapes = {replace(read_config(folder), vocab=0) for folder in EMBEDDED.parent.iterdir()}
    assert shapes == {replace(read_config(EMBEDDED), vocab=0)}


@pytest.mark.parametrize(
    ("name", "languages"), [("go", {"go"}), ("more", {"c", "cpp", "java", "php", "ruby", "rust", "shellscript"})]
)
def test_a_model_of_its_own_wheel_is_no_part_of_this_package(name: str, languages: set[str]) -> None:
    assert set(read_languages(EMBEDDED.with_name(name))) == languages and languages.isdisjoint(SHIPPED)


def test_a_language_has_the_model_that_knows_it() -> None:
    assert embedded_for("python") == embedded_for("Python") == EMBEDDED
    assert embedded_for("typescriptreact") == embedded_for("javascript") == SHIPPED["typescript"] != EMBEDDED
    assert embedded_for("fortran") is None


def test_a_package_brings_a_model_and_nothing_of_it_runs(publish: Publish) -> None:
    folder = publish("efim_ls_tcl", "tcl", "Expect")
    assert embedded_for("tcl") == embedded_for("expect") == folder
    assert embedded_models()[folder] == ("expect", "tcl")
    assert next(iter(embedded_models())) == EMBEDDED
    assert "efim_ls_tcl" not in sys.modules


def test_what_has_a_model_already_keeps_it(publish: Publish, caplog: pytest.LogCaptureFixture) -> None:
    first, _ = publish("efim_ls_tcl", "tcl"), publish("efim_ls_tickle", "tcl", "python")
    assert embedded_for("tcl") == first and embedded_for("python") == EMBEDDED
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "efim_ls_tickle is left out: python has a model already; name its folder in `model`",
        "efim_ls_tickle is left out: tcl has a model already; name its folder in `model`",
    ]
    installed()
    assert len(caplog.records) == 2, "it is told once"


@pytest.mark.parametrize("files", [(), ("config.json",), ("tokenizer.json",)])
def test_a_package_without_a_model_is_told(
    files: tuple[str, ...], publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    publish("efim_ls_tcl", "tcl", files=files)
    assert embedded_for("tcl") is None
    assert [record.getMessage() for record in caplog.records] == [
        "efim_ls_tcl is no package with a model: install it again, or remove it"
    ]


def test_an_entry_point_of_what_is_not_there_is_told(publish: Publish, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(publish("efim_ls_tcl", "tcl"))
    assert embedded_for("tcl") is None
    assert "install it again, or remove it" in caplog.text
