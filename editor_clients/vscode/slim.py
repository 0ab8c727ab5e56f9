"""Takes from the environment of the Python that runs it all that the server never uses, once pip has installed it.

numpy's tests go, and their rows in numpy's list of files, from which pip removes or replaces it; then what installs.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

TESTS = re.compile(r"/tests/|/_core/(_\w+_tests|_simd)\.")  # numpy's, in Python and compiled
INSTALLERS = ("uv", "setuptools", "pip")  # pip last: it removes them


def remove_tests() -> None:
    """Remove numpy's tests, if the environment itself has numpy."""
    for numpy in distributions(name="numpy", path=[sysconfig.get_path("platlib")]):
        rows = [*csv.reader((numpy.read_text("RECORD") or "").splitlines())]
        kept = [row for row in rows if not TESTS.search(row[0])]
        for row in rows:
            if row not in kept:
                Path(str(numpy.locate_file(row[0]))).unlink(missing_ok=True)
        [record] = [row[0] for row in kept if row[0].endswith(".dist-info/RECORD")]
        with Path(str(numpy.locate_file(record))).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(kept)


if __name__ == "__main__":
    remove_tests()
    command = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "uninstall", "--yes", *INSTALLERS]
    sys.exit(subprocess.run(command).returncode)
