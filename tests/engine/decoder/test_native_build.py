"""How the compiled parts are built: their sources' hash is in them, and what the compiler says is not lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from model_runtime.c_sources import build_error, sources_hash, why_missing
from model_runtime.decoder.native import library
from tests import compiled
from tests.compiled import must_compile, require, require_compiled

ROOT = Path(__file__).parents[3]
NATIVE = Path("model_runtime/decoder/native")
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "small"
version = "1"
[tool.setuptools]
packages = ["small"]
[[tool.setuptools.ext-modules]]
name = "small._native"
sources = ["small/small.c"]
optional = true
"""
SOURCE = """
#define TEXT(x) #x
#define SPELLED(x) TEXT(x)
const char *efim_sources(void) { return SPELLED(SOURCES); }
"""
NEEDS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


class Project:
    """A small project that is built as this one is."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.library = folder, folder / "small" / "_native.so"
        (folder / "model_runtime").mkdir(parents=True)
        (folder / "small").mkdir()
        for name in ("setup.py", "model_runtime/c_sources.py"):
            shutil.copy(ROOT / name, folder / name)
        (folder / "pyproject.toml").write_text(PROJECT)
        self.write(SOURCE)

    def write(self, source: str) -> None:
        (self.folder / "small" / "small.c").write_text(source)

    def build(self, **environment: str) -> None:
        command = [sys.executable, "setup.py", "build_ext", "--inplace"]
        subprocess.run(
            command, check=True, cwd=self.folder, env={**os.environ, **environment}, stderr=subprocess.DEVNULL
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@NEEDS_GCC
def test_what_does_not_compile_is_installed_without_it_and_the_reason_is_kept(project: Project) -> None:
    project.write(f"{SOURCE}int broken(void) {{ return }}")
    project.build(LC_ALL="de_DE.UTF-8")
    assert not project.library.exists()
    assert "small.c" in build_error(project.library) and "error: expected expression" in build_error(project.library)
    told = why_missing(project.library, "the part")
    assert told.startswith("the part could not be compiled (small/small.c:5:") and "install gcc 11" in told
    project.write(SOURCE)
    project.build()
    assert project.library.exists() and not build_error(project.library)


def test_a_compiler_that_is_not_there_is_named(project: Project) -> None:
    project.build(CC="no-such-compiler")
    assert "there is no no-such-compiler" in why_missing(project.library, "the part")


def test_a_compiler_that_is_switched_off_leaves_no_message(project: Project) -> None:
    project.build(CC="false")
    assert why_missing(project.library, "it") == "it was not built: install efim-ls again with gcc 11 or newer"


@NEEDS_GCC
def test_any_source_that_changes_is_built_again_and_moves_the_hash(project: Project) -> None:
    found = {sources_hash(project.library.parent)}
    for change in (f"{SOURCE}/* */", f"{SOURCE}/* another */"):
        project.write(change)
        project.build()
        found.add(sources_hash(project.library.parent))
        code = "import ctypes, sys; from model_runtime.c_sources import embedded_hash; "
        code += "print(embedded_hash(ctypes.CDLL(sys.argv[1]), 'efim_sources'))"
        ran = subprocess.run([sys.executable, "-c", code, project.library], capture_output=True, text=True, cwd=ROOT)
        assert ran.stdout.strip() == sources_hash(project.library.parent)
    (project.library.parent / "more.h").write_text("")
    assert len(found | {sources_hash(project.library.parent)}) == 4


CHANGES = {
    "the library it was built with": (lambda folder: None, "AVX"),
    "a changed source": (lambda folder: (folder / "pass.h").open("a").write("\n"), "was built from other sources"),
    "no library": (lambda folder: (folder / "_native.so").unlink(), "was not built"),
    "no library at all": (lambda folder: (folder / "_native.so").write_text("text"), "cannot be loaded"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_library_of_other_sources_is_not_used_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    require_compiled()
    shutil.copytree(library.PATH.parent, tmp_path / "native")
    alter, reason = CHANGES[change]
    alter(tmp_path / "native")
    monkeypatch.setattr(library, "PATH", tmp_path / "native" / library.PATH.name)
    found = library.library.__wrapped__()
    if reason == "AVX":
        assert not isinstance(found, str)
    else:
        assert isinstance(found, str) and reason in found and "install efim-ls again" in found


def test_what_the_compiler_said_is_in_the_log_and_in_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said = "native.c: In function 'meet':\nnative.c:40:5: error: expected ';'\n"
    (tmp_path / "_native.error.txt").write_text(said)
    monkeypatch.setattr(library, "PATH", tmp_path / "_native.so")
    monkeypatch.setattr(library.platform, "machine", lambda: "x86_64")
    found = library.library.__wrapped__()
    assert found == (
        "the compiled part could not be compiled (native.c:40:5: error: expected ';'): "
        "install gcc 11 or newer, then install efim-ls again"
    )
    assert said in caplog.text


def test_another_machine_is_told_so_whatever_its_compiler_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "_native.error.txt").write_text("error: no such instructions")
    monkeypatch.setattr(library, "PATH", tmp_path / "_native.so")
    monkeypatch.setattr(library.platform, "machine", lambda: "riscv64")
    assert (library.library.__wrapped__(), caplog.text) == ("it is for x86-64 and ARM CPUs of 64 bits", "")


def test_keys_and_values_of_other_instructions_are_not_taken_for_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    require_compiled()
    best, hashes = library.instruction_sets(), set[str]()
    for first in range(len(best)):
        monkeypatch.setattr(library, "SETS", best[first:])
        hashes.add(library.library_hash())
    assert len(hashes) == len(best)


@pytest.mark.parametrize(
    ("ci", "gcc", "flags", "must"),
    [("1", "gcc", "avx512f", True), ("", "gcc", "avx512f", False), ("1", None, "avx512f", False)]
    + [("1", "gcc", "avx2", False)],
)
def test_a_missing_part_fails_in_ci_where_it_can_be_compiled_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, gcc: str | None, flags: str, must: bool
) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : sse {flags} popcnt")
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(compiled, "CPU", tmp_path / "cpuinfo")
    monkeypatch.setattr(shutil, "which", lambda name: gcc)
    assert must_compile({"avx512f"}) is must
    with pytest.raises(pytest.fail.Exception if must else pytest.skip.Exception, match="no part"):
        require("there is no part", {"avx512f"})
