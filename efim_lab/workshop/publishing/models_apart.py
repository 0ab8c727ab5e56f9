"""Moves the models, which the server's wheels all contain, into a wheel that is installed with any of these.

`python -m efim_lab.workshop.publishing.models_apart OUT WHEEL...` is a step of `make vsix`.
"""

from __future__ import annotations

import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

MODELS = "model_runtime/embedded/"
NAME = "efim_ls_models"
RECORD = "RECORD"  # the list of a wheel's files, for pip
_METADATA = "Metadata-Version: 2.1\nName: efim-ls-models\nVersion: {version}\nSummary: The models of efim-ls\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: efim_lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_apart(wheels: Sequence[Path], out: Path) -> None:
    """Write each wheel without models under its own name, and the wheel of the models, into a folder."""
    for wheel in wheels:
        with ZipFile(wheel) as whole, ZipFile(out / wheel.name, "w") as rest:
            for file in whole.infolist():
                content = whole.read(file)
                if file.filename.endswith(f".dist-info/{RECORD}"):
                    content = b"".join(_lines(content, of_models=False))
                if not file.filename.startswith(MODELS):
                    rest.writestr(file, content)
    _write_models(wheels[0], out)


def _write_models(wheel: Path, out: Path) -> None:
    version = wheel.name.split("-")[1]
    with ZipFile(wheel) as whole, ZipFile(out / f"{NAME}-{version}-py3-none-any.whl", "w") as models:
        [record] = [file for file in whole.infolist() if file.filename.endswith(f".dist-info/{RECORD}")]
        for file in whole.infolist():
            if file.filename.startswith(MODELS):
                models.writestr(file, whole.read(file))
        lines = [*_lines(whole.read(record), of_models=True)]
        for name, text in (("METADATA", _METADATA.format(version=version)), ("WHEEL", _WHEEL)):
            path, content = f"{NAME}-{version}.dist-info/{name}", text.encode()
            models.writestr(_like(record, path), content)
            digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(content)}\n".encode())
        path = f"{NAME}-{version}.dist-info/{RECORD}"
        models.writestr(_like(record, path), b"".join([*lines, f"{path},,\n".encode()]))


def _lines(record: bytes, *, of_models: bool) -> Iterator[bytes]:
    return (line for line in record.splitlines(keepends=True) if line.startswith(MODELS.encode()) == of_models)


def _like(other: ZipInfo, path: str) -> ZipInfo:
    """Return a new file's entry in an archive, with another entry's date: the same wheels give the same bytes."""
    made = ZipInfo(path, other.date_time)
    made.external_attr, made.compress_type = other.external_attr, ZIP_DEFLATED
    return made


if __name__ == "__main__":
    folder, *named = map(Path, sys.argv[1:])
    write_apart(named, folder)
