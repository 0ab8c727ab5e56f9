"""What `make release` leaves in dist/: whole, of these sources, and enough where there is no clone."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from datetime import datetime
from fnmatch import fnmatch
from importlib.metadata import distribution, distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.compiled import require_compiled

from ..editors.conftest import lacking
from ..editors.fetching.part import ROOT
from .contents import GOLDEN, files_in, read_listing

DIST = ROOT / "dist"
SHORT_LIST = ROOT / "requirements-embedded.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]
COMPILED, PURE = f"efim_ls-{VERSION}-py3-none-manylinux_2_28_x86_64.whl", f"efim_ls-{VERSION}-py3-none-any.whl"
WHEELS = (COMPILED, PURE)
SDIST, VSIX, PLUGIN = f"efim_ls-{VERSION}.tar.gz", f"efim-ls-{VERSION}.vsix", f"efim-ls-{VERSION}-neovim.tar.gz"
SEPARATE = {name: f"efim_ls_{name}-{VERSION}-py3-none-any.whl" for name in ("go", "more")}
FILES = {*WHEELS, *SEPARATE.values(), SDIST, VSIX, PLUGIN}
PACKAGES_STATEMENT, BUILD_STATEMENT = f"efim-ls-{VERSION}.cdx.json", f"efim-ls-{VERSION}.provenance.json"
SLIM = ROOT / "editor_clients" / "vscode" / "slim.py"
LIBRARIES = {
    "model_runtime/decoder/native/_native.so",
    "model_runtime/engine/native/_engine.so",
    "model_runtime/counts/native/_counts.so",
}
MODEL = "model_runtime/embedded/python/model.safetensors"
MODELS = ROOT / "model_runtime" / "embedded"
PACKAGES = ("efim_ls", "model_runtime", "kv_store", "editor_clients")
# A model in a wheel of its own, its languages, a file with a cursor at its end, and how the suggestion begins.
SEPARATE_MODELS = [
    (
        "go", "Go", "area.go",
        "package area\n\nfunc read(name string) ([]byte, error) {\n\tinfo, err := os.Stat(name)\n\ti",
        "f err != nil {",
    ),
    (
        "more", "C, C++, Java, PHP, Ruby, Rust and shell scripts", "area.rs",
        "fn sum(numbers: &[f32]) -> f32 {\n    let mut total = 0.0;\n    for number in numbers {\n        tot",
        "al += ",
    ),
]  # fmt: skip
FILE = "@overload\ndef area_of_circle(radius):\n    return 3.14 * radius * radius\n\n\ndef area_of_ci"


def released(name: str) -> Path:
    if not (path := DIST / name).exists():
        lacking(f"no dist/{name}: run `make release`")
    return path


def contents(wheel: str) -> dict[str, bytes]:
    return files_of(released(wheel))


def files_of(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Environment:
    """A Python with some wheels and nothing else, a home of its own, an empty PATH, and a file to complete."""

    def __init__(self, folder: Path, *wheels: str, pip: bool = False) -> None:
        self._folder, self.file, self.root = folder, folder / "area.py", folder / "environment"
        options = [] if pip else ["--without-pip"]
        subprocess.run([sys.executable, "-m", "venv", *options, self.root], check=True)
        self.install(*map(released, wheels))
        [self.packages] = folder.glob("environment/lib/python*/site-packages")
        self.file.write_text(FILE, "utf-8")

    def install(self, *words: str | Path) -> None:
        self.pip("install", "--quiet", "--no-deps", "--no-index", "--no-compile", *words)

    def pip(self, *words: str | Path) -> None:
        ours = {
            name: value for name, value in os.environ.items() if name != "PYTHONPATH"
        }  # else pip sees what is here
        python = self.root / "bin" / "python"
        subprocess.run([sys.executable, "-m", "pip", "--python", python, *words], env=ours, check=True)

    def copy(self, name: str) -> None:
        """Install a package as it is installed here."""
        for file in distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (place := self.packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), place)

    def run(self, *words: str, program: str = "efim-ls", given: str = "") -> str:
        homes = {f"XDG_{name}_HOME": str(self._folder / name) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
        env = {"PATH": "", "HOME": str(self._folder), "OMP_NUM_THREADS": "1", **homes}
        command = [self.root / "bin" / program, *words]
        return subprocess.run(
            command, cwd=self._folder, env=env, input=given, check=True, capture_output=True, text=True
        ).stdout

    def complete(self) -> None:
        answer = json.loads(self.run("complete", "--json", f"{self.file}:6:15"))
        assert answer["text"].startswith("rcle(radius):")


def test_every_file_has_its_hash() -> None:
    lines = released("SHA256SUMS").read_text("utf-8").splitlines()
    hashes = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert set(hashes) == {*FILES, PACKAGES_STATEMENT, BUILD_STATEMENT}
    assert {name: sha256(released(name).read_bytes()) for name in hashes} == hashes


@pytest.mark.parametrize(("wheel", "without"), [(COMPILED, set[str]()), (PURE, LIBRARIES)], ids=["compiled", "pure"])
def test_a_wheel_holds_what_its_list_says(wheel: str, without: set[str]) -> None:
    """After a change that is meant: `make release`, then `python -m tests.release.contents`."""
    assert files_in(released(wheel)) == read_listing(GOLDEN.read_text("utf-8")) - without


@pytest.mark.parametrize("wheel", WHEELS)
def test_a_wheel_holds_the_packages_as_they_are_here(wheel: str) -> None:
    """A difference is a change after the release was made: run `make release`."""
    sources = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    sources.discard(SLIM.relative_to(ROOT).as_posix())
    found = {name: content for name, content in contents(wheel).items() if name.endswith(".py")}
    assert set(found) == sources
    assert [name for name, content in found.items() if content != (ROOT / name).read_bytes()] == []


@pytest.mark.parametrize("wheel", WHEELS)
def test_a_wheel_holds_the_model_and_nothing_of_this_machine(wheel: str) -> None:
    files = contents(wheel)
    assert files[MODEL] == (ROOT / MODEL).read_bytes()
    assert {name.split("/")[0] for name in files} == {*PACKAGES, f"efim_ls-{VERSION}.dist-info"}
    ours = [str(ROOT).encode(), sys.base_prefix.encode()] if sys.base_prefix != "/usr" else [str(ROOT).encode()]
    assert [name for name, content in files.items() if any(each in content for each in ours)] == []


def test_one_wheel_serves_every_python_on_linux_and_one_all_else() -> None:
    for wheel, pure, libraries in ((COMPILED, "false", LIBRARIES), (PURE, "true", set[str]())):
        files = contents(wheel)
        about = files[f"efim_ls-{VERSION}.dist-info/WHEEL"].decode()
        assert f"Root-Is-Purelib: {pure}\n" in about
        assert [line for line in about.splitlines() if line.startswith("Tag: ")] == [f"Tag: {wheel[14:-4]}"]
        assert {name for name in files if name.endswith(".so")} == libraries


@pytest.fixture(scope="module")
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Outside the clone, with an empty PATH, so without a compiler; what the server needs is taken from here."""
    environment = Environment(tmp_path_factory.mktemp("fresh"), request.param)
    (environment.packages / "needed.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    return environment


@pytest.mark.parametrize(("fresh", "is_compiled"), [(COMPILED, True), (PURE, False)], indirect=["fresh"])
def test_a_wheel_completes_in_a_fresh_environment(fresh: Environment, is_compiled: bool) -> None:
    assert fresh.run("--version") == f"efim-ls {VERSION}\n"
    fresh.complete()
    code = "import efim_ls, model_runtime.decoder.native.library as l; print(efim_ls, l.library())"
    seen = fresh.run("-c", code, program="python")
    assert str(fresh.packages) in seen and ("CDLL" in seen) == is_compiled


@pytest.mark.parametrize("fresh", [COMPILED], indirect=True)
def test_separate_models_answer_where_their_wheels_are_installed(fresh: Environment) -> None:
    fresh.install(*(released(wheel) for wheel in SEPARATE.values()))
    for name in SEPARATE:
        assert {path.name for path in (fresh.packages / f"efim_ls_{name}").iterdir()} == {
            *(path.name for path in (MODELS / name).iterdir()), "__init__.py"
        }  # fmt: skip
    models = json.loads(fresh.run("models", "--json"))["models"]
    assert {each["name"] for each in models if each["name"].startswith("embedded")} == {
        "embedded, Python", "embedded, JavaScript and TypeScript",
        *(f"embedded, {languages}" for _, languages, *_ in SEPARATE_MODELS),
    }  # fmt: skip
    for _, _, file, text, begins in SEPARATE_MODELS:
        path = fresh.file.with_name(file)
        path.write_text(text, "utf-8")
        lines = text.split("\n")
        answer = json.loads(fresh.run("complete", "--json", f"{path}:{len(lines)}:{len(lines[-1]) + 1}"))
        assert answer["text"].startswith(begins) and answer["notice"] is None


def test_the_packages_that_are_needed_are_listed_in_the_versions_that_were_tested() -> None:
    statement = json.loads(released(PACKAGES_STATEMENT).read_text("utf-8"))
    libraries = {each["name"]: each for each in statement["components"] if each["type"] == "library"}
    light = {name for name, each in libraries.items() if each["scope"] == "required"}
    assert light == {distribution(name).name for name in re.findall(r"(?m)^[\w-]+", SHORT_LIST.read_text("utf-8"))}
    assert "torch" in libraries and all(each["licenses"] for each in libraries.values())
    pinned = dict(re.findall(r"(?m)^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text("utf-8")))
    assert {name: pinned[name] for name in libraries if name in pinned} == {
        name: each["version"].split("+")[0] for name, each in libraries.items() if name in pinned
    }
    assert [each["bom-ref"] for each in libraries.values()] == statement["dependencies"][0]["dependsOn"]


def test_the_packages_are_listed_in_the_same_bytes_again(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).symlink_to(released(name))
    listed = released(PACKAGES_STATEMENT).read_text("utf-8")
    time = datetime.fromisoformat(json.loads(listed)["metadata"]["timestamp"])
    command = [sys.executable, "-m", "tests.release.statements", tmp_path, VERSION]
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(int(time.timestamp()))}
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    assert (tmp_path / PACKAGES_STATEMENT).read_text("utf-8") == listed


def test_the_build_is_stated_with_the_hash_of_each_file_and_the_commit() -> None:
    statement = json.loads(released(BUILD_STATEMENT).read_text("utf-8"))
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == {
        name: sha256(released(name).read_bytes()) for name in FILES
    }
    [source] = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert (
        subprocess.run(["git", "cat-file", "-e", f"{source['digest']['gitCommit']}^{{commit}}"], cwd=ROOT).returncode
        == 0
    )


def test_the_page_says_how_large_each_file_is() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    said = dict(re.findall(r"(?m)^\| `(efim\S+)` \|.*\| (\d+) MB \|$", page))
    sizes = {name: math.ceil(released(name).stat().st_size / 1e6) for name in FILES}
    patterns = {name: [each for each in said if fnmatch(name, each)] for name in FILES}
    assert {name: int(said[each]) for name, [each] in patterns.items()} == sizes
    assert sizes[VSIX] <= 45 and max(sizes[each] for each in SEPARATE.values()) < 30


def test_the_short_list_is_enough_and_as_small_as_the_page_says(tmp_path: Path) -> None:
    """The wheel and the packages of the list, as the VS Code extension leaves them: commands, a server's session."""
    require_compiled()
    fresh = Environment(tmp_path, COMPILED, pip=True)
    for requirement in re.findall(r"(?m)^[\w-]+", SHORT_LIST.read_text("utf-8")):
        fresh.copy(requirement)
    see_size("light, by pip", bytes_below(fresh.root))
    fresh.run(str(SLIM), program="python")
    assert not {"pip", "setuptools"} & {path.name for path in fresh.packages.iterdir()}
    [numpy] = distributions(name="numpy", path=[str(fresh.packages)])
    named = [file for file in numpy.files or () if "__pycache__" not in file.parts and ".." not in file.parts]
    assert named and not [*(fresh.packages / "numpy").rglob("test_*.py")]
    assert [str(file) for file in named if not Path(str(file.locate())).exists()] == []
    fresh.complete()
    asked = [{"op": "open"}, {"op": "complete", "at": len(FILE)}]
    lines = [json.dumps({"id": 1, "path": str(fresh.file), **each}) for each in asked]
    answer = json.loads(fresh.run("headless", given="\n".join(lines)).splitlines()[-1])
    assert answer["text"].startswith("rcle(radius):")
    [line] = [line for line in fresh.run("status", "--json").splitlines() if str(fresh.packages) in line]
    server = json.loads(line)  # others are another installation's
    see_size("memory", server["mib"] * 1_000_000)  # MiB, as all pages count memory
    fresh.run("stop")
    assert "works: " in fresh.run("doctor")
    assert "efim-ls" in fresh.run("completion", "bash")
    fresh.run("-c", "import watchfiles", program="python")  # where the editor does not watch files
    fresh.run("-c", "import numpy.testing", program="python")  # which has looked into numpy's tests before
    assert not (fresh.packages / "torch").exists()
    see_size("light, by VS Code", bytes_below(fresh.root))
    fresh.pip("uninstall", "--quiet", "--yes", "numpy")
    assert not [*fresh.packages.glob("numpy*")], "pip no longer knows its files"


def test_the_other_ways_to_install_take_what_the_page_says() -> None:
    server = sum(len(content) for content in contents(COMPILED).values())
    see_size("light, by uv", server + bytes_of_packages({"torch"}))
    see_size("with torch, for CPUs", server + bytes_of_packages(set()))


def bytes_of_packages(left_out: set[str]) -> int:
    """Return what the packages that the server needs take on disk as they are installed here, without bytecode."""
    seen, names, total = {*left_out}, ["efim-ls"], 0
    while names:
        if (name := names.pop()) in seen:
            continue
        seen.add(name)
        package = distribution(name)
        needs = map(Requirement, package.requires or ())
        names += [each.name for each in needs if not each.marker or each.marker.evaluate({"extra": ""})]
        if name != "efim-ls":
            files = [path for each in package.files or () if (path := Path(str(each.locate()))).exists()]
            total += sum(path.stat().st_blocks * 512 for path in files if path.parent.name != "__pycache__")
    return total


def see_size(row: str, size: int) -> None:
    """Compare with the page's table, whose figures are what is taken, rounded up."""
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    [said] = re.findall(rf"(?m)^\| {row} \|.*\| ([\d,]+) MB \|$", page)
    most = int(said.replace(",", "")) * 1_000_000
    print(f"{row}: {size / 1e6:.1f} MB of {most / 1e6:.0f}")
    assert 0.85 * most < size <= most, row


def bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def test_the_plugin_and_the_source_are_whole() -> None:
    with tarfile.open(released(PLUGIN)) as archive:
        plugin = ROOT / "editor_clients" / "neovim"
        there = {name.removeprefix("efim-ls/"): archive.extractfile(name) for name in archive.getnames()}
        sources = [path for path in plugin.rglob("*") if path.is_file()]
        for path in [*sources, ROOT / "LICENSE"]:
            name = path.relative_to(plugin if path in sources else ROOT).as_posix()
            assert (found := there[name]) and found.read() == path.read_bytes(), name
    with tarfile.open(released(SDIST)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "LICENSE", "constraints.txt", SHORT_LIST.name, "docs/editors.md", MODEL} <= names
    assert not any("efim_lab" in name for name in names)
    compiled = [path for package in PACKAGES for path in (ROOT / package).rglob("*.[ch]")]
    assert {path.relative_to(ROOT).as_posix() for path in compiled} <= names
