"""Writes which packages a release needs, and from which commit and by which command it was made.

`python -m tests.release.statements DIST VERSION` is a step of `make release`.
The same files of the same commit give the same statements.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import distribution
from os import environ
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

ROOT = Path(__file__).parents[2]
COMMAND = "make release"
STATEMENTS = (".cdx.json", ".provenance.json")  # of packages (CycloneDX 1.6), and of the build (in-toto, SLSA 1.0)
LICENSE_CLASSIFIER = "License :: OSI Approved :: "
LONGEST_NAME = 80  # characters; some packages have the whole licence in its field

Statement = dict[str, Any]


def write_statements(dist: Path, version: str) -> None:
    """Write both statements of the release's files in `dist`."""
    name = f"efim-ls-{version}"
    paths = sorted(path for path in dist.glob(f"*-{version}[.-]*") if not path.name.endswith(STATEMENTS))
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in paths}
    made = (packages_statement(version, digests), build_statement(digests))
    for ending, statement in zip(STATEMENTS, made, strict=True):
        (dist / f"{name}{ending}").write_text(json.dumps(statement, indent=1) + "\n", "utf-8")


def packages_statement(version: str, digests: Mapping[str, str]) -> Statement:
    """Return the release's files and the packages it was tested with: needed by the light server, or with torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    light = _names((ROOT / "requirements-embedded.txt").read_text("utf-8").splitlines())
    packages = [_package(name, "required") for name in light]
    packages += [_package(name, "optional") for name in _names(project["dependencies"]) if name not in light]
    files: list[Statement] = [
        {"type": "file", "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
        for name, digest in digests.items()
    ]
    licenses = [{"expression": project["license"]}]
    server: Statement = {
        "type": "application",
        "bom-ref": "efim-ls",
        "name": "efim-ls",
        "version": version,
        "licenses": licenses,
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_OID, json.dumps([digests, packages]))}",
        "version": 1,
        "metadata": {"timestamp": _time(), "component": server},
        "components": [*files, *packages],
        "dependencies": [{"ref": "efim-ls", "dependsOn": [each["bom-ref"] for each in packages]}],
    }


def build_statement(digests: Mapping[str, str]) -> Statement:
    """Return where the files come from, unsigned: it says how to make them again, to compare the bytes."""
    commit = _git("rev-parse", "HEAD")
    changed = bool(_git("status", "--porcelain", "--untracked-files=no"))
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:efim-ls:make",
                "externalParameters": {"command": COMMAND, "commit": commit, "has_uncommitted_changes": changed},
                "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": commit}}],
            },
            "runDetails": {"builder": {"id": "urn:efim-ls:unsigned"}, "metadata": {"finishedOn": _time()}},
        },
    }


def _names(requirements: Iterable[str]) -> list[str]:
    return [found[0] for each in requirements if (found := re.match(r"[\w-]+", each))]


def _package(name: str, scope: str) -> Statement:
    about = distribution(name).metadata.json
    address = f"pkg:pypi/{str(about['name']).lower().replace('_', '-')}@{about['version']}"
    package = {"type": "library", "bom-ref": address, "name": about["name"], "version": about["version"]}
    return {**package, "purl": address, "scope": scope, "licenses": _licenses(about)}


def _licenses(about: Mapping[str, Any]) -> list[Statement]:
    if expression := about.get("license_expression"):
        return [{"expression": expression}]
    name = str(about.get("license", ""))
    if name and len(name) <= LONGEST_NAME and "\n" not in name:
        return [{"license": {"name": name}}]
    found = [each for each in about.get("classifier", ()) if each.startswith(LICENSE_CLASSIFIER)]
    return [{"license": {"name": each.removeprefix(LICENSE_CLASSIFIER)}} for each in found]


def _time() -> str:
    return datetime.fromtimestamp(int(environ["SOURCE_DATE_EPOCH"]), UTC).isoformat()


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    write_statements(Path(sys.argv[1]), sys.argv[2])
