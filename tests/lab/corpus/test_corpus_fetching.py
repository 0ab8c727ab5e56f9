"""Packages are downloaded by the real npm and apt-get, from a registry and an archive of the tests' own."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.corpus import fetching
from efim_lab.workshop.training.corpus.debian.archives import fetch_sources
from efim_lab.workshop.training.corpus.fetching import ListedPackage, check_digest, read_list
from efim_lab.workshop.training.corpus.go import packages as go
from efim_lab.workshop.training.corpus.javascript import packages as javascript
from efim_lab.workshop.training.corpus.language import CorpusSource
from efim_lab.workshop.training.corpus.languages import LANGUAGES

CODE = "export const one = 1;\n"


def digest(kind: str, data: bytes) -> str:
    return f"{kind}-{base64.b64encode(hashlib.new(kind, data).digest()).decode()}"


def packed(files: dict[str, str]) -> bytes:
    """Return an archive as npm has it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return made.getvalue()


STATED = {"name": "@scope/alpha", "version": "1.0.0", "license": "MIT", "scripts": {"prepare": "exit 1"}}
ALPHA = packed({"package/package.json": json.dumps(STATED), "package/src/a.ts": CODE})


class _Registry(BaseHTTPRequestHandler):
    """Answers as npm's registry does, for one package."""

    def do_GET(self) -> None:
        address = f"http://{self.headers['Host']}/alpha.tgz"
        dist = {"tarball": address, "integrity": digest("sha512", ALPHA), "shasum": hashlib.sha1(ALPHA).hexdigest()}
        described = {"name": "@scope/alpha", "versions": {"1.0.0": {**STATED, "dist": dist}}}
        known = {"/@scope%2falpha": json.dumps(described).encode(), "/alpha.tgz": ALPHA}
        found = known.get(self.path.replace("%2F", "%2f"))
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(found or b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry of npm's with one package."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def written(folder: Path, line: str) -> Path:
    path = folder / "packages.txt"
    path.write_text(f"# A comment.\n{line}\n")
    return path


@pytest.mark.usefixtures("registry")
def test_npm_fetches_what_is_listed(tmp_path: Path) -> None:
    listed = written(tmp_path, f"@scope/alpha@1.0.0 {digest('sha512', ALPHA)}  # MIT")
    (folder,) = javascript.fetch(tmp_path / "fetched", listed)
    assert folder == tmp_path / "fetched" / "scope-alpha-1.0.0"
    assert (folder / "src" / "a.ts").read_text() == CODE
    assert javascript.fetched(tmp_path / "fetched") == [folder]


@pytest.mark.usefixtures("registry")
def test_a_package_with_another_digest_is_refused(tmp_path: Path) -> None:
    listed = written(tmp_path, f"@scope/alpha@1.0.0 {digest('sha512', b'other')}  # MIT")
    with pytest.raises(
        WorkError, match="has a digest other than the one listed: fetch it again, or correct the list"
    ):
        javascript.fetch(tmp_path / "fetched", listed)
    assert not list((tmp_path / "fetched").iterdir())


@pytest.mark.usefixtures("registry")
def test_a_package_that_npm_does_not_find_is_its_message(tmp_path: Path) -> None:
    listed = written(tmp_path, f"beta@1.0.0 {digest('sha512', ALPHA)}  # MIT")
    with pytest.raises(WorkError, match="npm ended with status 1: see its message above"):
        javascript.fetch(tmp_path / "fetched", listed)


@pytest.mark.parametrize("name", ["package/../../outside.ts", "/outside.ts", "package/..\\..\\outside.ts"])
def test_a_package_writes_nothing_outside_its_folder(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "alpha-1.0.0.tgz"
    archive.write_bytes(packed({name: CODE}))
    with pytest.raises(WorkError, match="outside its folder"):
        javascript.unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_package_and_a_folder_without_any_are_named(tmp_path: Path) -> None:
    archive = tmp_path / "alpha-1.0.0.tgz"
    archive.write_bytes(b"no archive")
    with pytest.raises(WorkError, match=r"alpha-1.0.0.tgz cannot be unpacked .*: fetch it again"):
        javascript.unpack(archive, tmp_path / "out")
    for each in (javascript, go):
        with pytest.raises(WorkError, match="holds no packages: make it with `python -m efim_lab train fetch`"):
            each.fetched(tmp_path)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """An archive of Debian's with one package, which apt-get knows; returns the package."""
    root, shelf = tmp_path / "golang-a-dev", tmp_path / "archive"
    for path, text in {
        "DEBIAN/control": "Package: golang-a-dev\nVersion: 1:2.0-1\nArchitecture: all\n"
        "Maintainer: A\nDescription: A\n",
        "usr/share/doc/golang-a-dev/copyright": "Files: *\nLicense: Expat\n",
        "usr/share/gocode/src/example.org/a/a.go": "package a\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    shelf.mkdir()
    made = shelf / "golang-a-dev_2.0-1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, made], check=True, capture_output=True)
    data = made.read_bytes()
    fields = f"Filename: ./{made.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
    (shelf / "Packages").write_text((root / "DEBIAN" / "control").read_text() + fields)
    _known_to_apt(tmp_path, shelf, monkeypatch)
    return data


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """An archive of Debian's with one package's sources, which apt-get can know; returns their description.

    Another package's sources make an installed package with the same name.
    """
    shelf = tmp_path / "archive"
    root = shelf / "alpha"
    for path, text in {
        "debian/control": "Source: alpha\nMaintainer: A <a@example.org>\nSection: misc\nPriority: optional\n"
        "Standards-Version: 4.6.2\n\nPackage: alpha\nArchitecture: all\nDescription: A\n",
        "debian/changelog": "alpha (2.0) stable; urgency=low\n\n  * One.\n\n"
        " -- A <a@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n",
        "debian/source/format": "3.0 (native)\n",
        "debian/copyright": "Files: *\nLicense: Expat\n",
        "src/A.java": "class A {}\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    subprocess.run(["dpkg-source", "--build", "alpha"], cwd=shelf, check=True, capture_output=True)
    listed = subprocess.run(["dpkg-scansources", "."], cwd=shelf, check=True, capture_output=True)
    (shelf / "Sources").write_bytes(listed.stdout)
    (shelf / "Packages").write_text(
        "Package: alpha\nSource: haskell-alpha\nVersion: 1.0-1\nArchitecture: all\nMaintainer: A\nDescription: A\n"
        f"Filename: ./alpha_1.0-1_all.deb\nSize: 1\nSHA256: {hashlib.sha256(b'').hexdigest()}\n"
    )
    _known_to_apt(tmp_path, shelf, monkeypatch)
    return (shelf / "alpha_2.0.dsc").read_bytes()


def _known_to_apt(tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make apt-get know an archive, without the archive's sources."""
    for name in ("lists/partial", "cache/archives/partial", "etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{shelf} ./\n")
    settings = {
        "Dir::State::lists": "lists", "Dir::State::status": "status", "Dir::Cache": "cache",
        "Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "etc",
    }  # fmt: skip
    (tmp_path / "status").touch()
    lines = [f'{name} "{tmp_path / value}";\n' for name, value in settings.items()]
    (tmp_path / "apt.conf").write_text("".join(lines) + 'APT::Sandbox::User "root";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    subprocess.run(["apt-get", "--quiet=2", "update"], check=True, capture_output=True)


def test_apt_fetches_the_sources_that_are_listed(tmp_path: Path, sources: bytes) -> None:
    listed = written(tmp_path, f"alpha=2.0 {digest('sha256', sources)}  # MIT")
    (folder,) = fetch_sources(tmp_path / "fetched", listed)
    assert folder == tmp_path / "fetched" / "alpha_2.0"
    assert LANGUAGES["java"].fetched(tmp_path / "fetched") == [folder]
    (found,) = LANGUAGES["java"].found_in(folder)
    assert found == CorpusSource("alpha", "2.0", "(MIT)", folder, ("src/A.java",))


def test_sources_with_another_digest_are_refused(tmp_path: Path, sources: bytes) -> None:
    listed = written(tmp_path, f"alpha=2.0 {digest('sha256', b'other')}  # MIT")
    with pytest.raises(WorkError, match="has a digest other than the one listed"):
        fetch_sources(tmp_path / "fetched", listed)


def test_apt_fetches_what_is_listed(tmp_path: Path, archive: bytes) -> None:
    listed = written(tmp_path, f"golang-a-dev=1:2.0-1 {digest('sha256', archive)}  # MIT")
    (folder,) = go.fetch(tmp_path / "fetched", listed)
    assert folder == tmp_path / "fetched" / "golang-a-dev_1%3a2.0-1"
    assert go.fetched(tmp_path / "fetched") == [folder]
    (found,) = go.found_in(folder)
    assert (found.name, found.version, found.licence) == ("example.org/a", "1:2.0-1", "(MIT)")


def test_a_package_of_debian_with_another_digest_is_refused(tmp_path: Path, archive: bytes) -> None:
    listed = written(tmp_path, f"golang-a-dev=1:2.0-1 {digest('sha256', b'other')}  # MIT")
    with pytest.raises(WorkError, match="has a digest other than the one listed"):
        go.fetch(tmp_path / "fetched", listed)


@pytest.mark.parametrize("fetch", [javascript.fetch, go.fetch])
def test_a_folder_that_holds_something_is_not_written_to(
    tmp_path: Path, fetch: Callable[[Path, Path], list[Path]]
) -> None:
    listed = written(tmp_path, f"a@1 {digest('sha512', b'')}  # MIT")
    with pytest.raises(WorkError, match="not an empty folder: name a new one"):
        fetch(tmp_path, listed)


def test_a_line_that_is_no_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="packages.txt has the line 'alpha 1.0': write PACKAGE DIGEST  # LICENCE"):
        read_list(written(tmp_path, "alpha 1.0"))


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="no-such-program is not installed: install it first"):
        fetching.run(("no-such-program",), tmp_path)


def test_a_digest_is_of_the_whole_archive(tmp_path: Path) -> None:
    archive = tmp_path / "a.tgz"
    archive.write_bytes(ALPHA)
    check_digest(archive, ListedPackage("a@1", digest("sha256", ALPHA), "MIT"))
    with pytest.raises(WorkError):
        check_digest(archive, ListedPackage("a@1", digest("sha256", ALPHA[:-1]), "MIT"))
