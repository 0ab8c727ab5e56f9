"""System programs, as a Chromium without a window or emulators of CPUs; installed from Debian if that is allowed."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from .part import Missing, Part, run

INSTALLING = threading.Lock()  # parts are fetched side by side, and apt-get does one thing at a time


def of_the_system(name: str, also_called: tuple[str, ...], packages: tuple[str, ...]) -> Part:
    """Return a part that links to the first of these programs on the PATH, installing one if there is none."""

    def installed() -> str | None:
        return next((path for each in (*also_called, name) if (path := shutil.which(each))), None)

    def fetch(folder: Path) -> None:
        if not installed():
            install(name, packages)
        if not (found := installed()):
            raise Missing(f"apt-get has installed {packages[0]}, yet it is not on the path")
        (folder / name).symlink_to(found)

    return Part(name, "system", name, fetch)


def install(name: str, packages: tuple[str, ...]) -> None:
    if not shutil.which("apt-get") or os.geteuid():
        raise Missing(f"no {name} is on the path, and only root of a Debian can install one: install {name}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with INSTALLING:
        run("apt-get", "update", env=quiet)
        run("apt-get", "install", "--yes", "--no-install-recommends", *packages, env=quiet)


CHROMIUM = of_the_system(
    "chromium",
    ("chromium-headless-shell", "chromium-browser", "google-chrome", "chrome"),
    ("chromium-headless-shell", "fonts-dejavu-core"),
)
TMUX = of_the_system("tmux", (), ("tmux",))
ARM_CPU = of_the_system("qemu-aarch64", (), ("qemu-user",))
OLD_CPU = of_the_system("qemu-x86_64", (), ("qemu-user",))
ARM_COMPILER = of_the_system("aarch64-linux-gnu-gcc", (), ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"))
REDIS = of_the_system("redis-server", ("valkey-server",), ("redis-server",))
PARTS = (CHROMIUM, TMUX, ARM_CPU, OLD_CPU, ARM_COMPILER, REDIS)
