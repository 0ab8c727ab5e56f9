"""The server in the VS Code extension: the wheels without models, and these once."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from ..editors.conftest import EXTENSION
from ..editors.fetching.part import ROOT
from .test_release import COMPILED, MODEL, PURE, VERSION, VSIX, WHEELS, Environment, contents, files_of, released

MODELS = f"efim_ls_models-{VERSION}-py3-none-any.whl"
LISTS = ("constraints.txt", "requirements-embedded.txt")  # of packages, for pip
MOST = 45_000_000  # bytes of the extension


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the extension that the server lies in."""
    folder = tmp_path_factory.mktemp("extension")
    with ZipFile(released(VSIX)) as archive:
        archive.extractall(folder)
    return folder / "extension" / "dist" / "server"


def test_it_stays_small() -> None:
    assert released(VSIX).stat().st_size <= MOST


def test_it_holds_the_servers_wheels_that_of_their_models_and_their_hashes(server: Path) -> None:
    assert {path.name for path in server.iterdir()} == {*WHEELS, MODELS, "SHA256SUMS", *LISTS}
    hashes = {wheel: sha256((server / wheel).read_bytes()).hexdigest() for wheel in sorted((*WHEELS, MODELS))}
    told = "".join(f"{digest}  {wheel}\n" for wheel, digest in hashes.items())
    assert (server / "SHA256SUMS").read_text("utf-8") == told
    for name in LISTS:
        assert (server / name).read_bytes() == (ROOT / name).read_bytes()
    for file in ("package.json", "package-lock.json"):
        assert json.loads((EXTENSION / file).read_text("utf-8"))["version"] == VERSION


@pytest.mark.parametrize("wheel", WHEELS)
def test_a_wheel_and_that_of_the_models_are_what_is_released(wheel: str, server: Path) -> None:
    rest, models = files_of(server / wheel), files_of(server / MODELS)
    assert MODEL in models and not set(models) & set(rest)
    both = {name: content for name, content in (rest | models).items() if "efim_ls_models-" not in name}
    record = f"efim_ls-{VERSION}.dist-info/RECORD"
    whole = contents(wheel)
    assert both.pop(record) != whole.pop(record)
    assert both == whole


@pytest.mark.parametrize("wheel", [*WHEELS, MODELS])
def test_a_wheel_lists_its_files(wheel: str, server: Path) -> None:
    files = files_of(server / wheel)
    [record] = [name for name in files if name.endswith(".dist-info/RECORD")]
    rows = [line.rsplit(",", 2) for line in files[record].decode().splitlines()]
    assert {row[0]: row[1:] for row in rows} == {
        name: ["", ""] if name == record else [f"sha256={digest(content)}", str(len(content))]
        for name, content in files.items()
    }


def digest(content: bytes) -> str:
    return urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()


def test_both_take_the_place_of_a_wheel_with_its_models(server: Path, tmp_path: Path) -> None:
    """As the extension installs them."""
    fresh = Environment(tmp_path, COMPILED)
    for wheel in (COMPILED, MODELS):
        fresh.install("--force-reinstall", server / wheel)
    assert {name for name in contents(PURE) if name.startswith("model_runtime/embedded/")} == {
        path.relative_to(fresh.packages).as_posix()
        for path in (fresh.packages / "model_runtime" / "embedded").rglob("*")
        if path.is_file()
    }
