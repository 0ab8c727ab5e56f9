import hashlib
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.corpus.licences import is_permissive
from efim_lab.workshop.training.corpus.python import wheels
from efim_lab.workshop.training.corpus.python.splits import SPLITS, canonical

CODE = "".join(f"def function_{n}(first, second):\n    return first + second * {n}\n\n" for n in range(30))


def build_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\nRequires-Python: <3\nLicense-Expression: MIT\n"
    metadata += "Requires-Dist: not-listed\n"
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},,\n" for path in files)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {
            **files,
            f"{info}/METADATA": metadata,
            f"{info}/WHEEL": tags,
            f"{info}/RECORD": record,
        }.items():
            archive.writestr(path, text)
    return wheel


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that pip finds without the network."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return build_wheel(tmp_path, "alpha", {"alpha/core.py": CODE})


def listed(folder: Path, digest: str) -> Path:
    path = folder / "distributions.txt"
    path.write_text(f"# A comment.\nalpha==1.0 \\\n    --hash=sha256:{digest}  # MIT\n")
    return path


def test_fetched_distributions_are_read_beside_the_other_folders(tmp_path: Path, wheel: Path):
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder,) = wheels.fetch(tmp_path / "fetched", listed(tmp_path, digest))
    assert folder == tmp_path / "fetched" / "alpha-1.0"
    assert (folder / "alpha" / "core.py").read_text() == CODE
    own = tmp_path / "own"
    (own / "beta").mkdir(parents=True)
    (own / "beta" / "core.py").write_text(CODE.replace("function", "other").replace("first", "one"))
    out = tmp_path / "out"
    assert main(["corpus", str(own), "--fetched", str(tmp_path / "fetched"), "--out", str(out)]) == 0
    assert {"alpha", "beta"} == set(re.findall(r'"name": "(\w+)"', (out / "manifest.json").read_text()))


def test_a_wheel_with_another_hash_is_refused(tmp_path: Path, wheel: Path):
    with pytest.raises(WorkError, match="pip ended with status 1: see its message above"):
        wheels.fetch(tmp_path / "fetched", listed(tmp_path, "0" * 64))
    assert not list((tmp_path / "fetched").iterdir())


def test_a_source_distribution_whose_code_would_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # builds with what is installed; pip reads 0 as "no isolation"
    (tmp_path / "setup.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    with tarfile.open(tmp_path / "alpha-1.0.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "setup.py", "alpha-1.0/setup.py")
    digest = hashlib.sha256((tmp_path / "alpha-1.0.tar.gz").read_bytes()).hexdigest()
    with pytest.raises(WorkError, match="pip ended with status 1"):
        wheels.fetch(tmp_path / "fetched", listed(tmp_path, digest))
    assert not (tmp_path / "run").exists()


def test_a_list_without_hashes_is_refused(tmp_path: Path, wheel: Path):
    unpinned = tmp_path / "distributions.txt"
    unpinned.write_text("alpha==1.0  # MIT\n")
    with pytest.raises(WorkError, match="pip ended with status 1"):
        wheels.fetch(tmp_path / "fetched", unpinned)


def test_a_folder_that_holds_something_is_not_written_to(tmp_path: Path, wheel: Path):
    with pytest.raises(WorkError, match="not an empty folder: name a new one"):
        wheels.fetch(tmp_path, listed(tmp_path, "0" * 64))


@pytest.mark.parametrize("name", ["../outside.py", "a/../../outside.py", "/outside.py", "..\\outside.py", "C:\\a.py"])
def test_a_wheel_writes_nothing_outside_its_folder(tmp_path: Path, name: str):
    wheel = build_wheel(tmp_path, "alpha", {name: CODE})
    with pytest.raises(WorkError, match="outside its folder"):
        wheels.unpack(wheel, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_wheel_and_a_folder_without_wheels_are_named(tmp_path: Path):
    (tmp_path / "alpha-1.0-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(WorkError, match=r"alpha-1.0-py3-none-any.whl cannot be unpacked .*: fetch it again"):
        wheels.unpack(tmp_path / "alpha-1.0-py3-none-any.whl", tmp_path / "out")
    with pytest.raises(WorkError, match="holds no distributions: make it with `python -m efim_lab train fetch`"):
        wheels.fetched(tmp_path)


def test_the_list_pins_permissive_distributions_that_may_be_learnt():
    pinned = re.compile(r"([a-z0-9-]+)==[\w.]+ \\\n    --hash=sha256:[0-9a-f]{64}  # (.+)\n")
    text = re.sub(r"(?m)^#.*\n", "", wheels.DISTRIBUTIONS.read_text())
    found = pinned.findall(text)
    names = [name for name, _ in found]
    assert pinned.sub("", text) == ""
    assert 0 < len(names) <= 100 and names == sorted(set(names))
    assert all(is_permissive(licence) for _, licence in found)
    assert all(canonical(name) == name and SPLITS.is_learnt(name) for name in names)
