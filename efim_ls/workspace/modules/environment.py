"""Where the modules lie that a workspace's code imports, found by looking at folders and at `pyvenv.cfg` alone."""

from __future__ import annotations

import os
import re
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

LIBRARY, WORKSPACE = "the standard library", "the workspace"  # in plain words
USUAL = (".venv", "venv")  # names of environments in a workspace's folder
CONFIGURATION = "pyvenv.cfg"  # stands in every virtual environment
OWN_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# The standard library in a Python's folder, and installed packages in an environment's.
LIBRARIES = ("lib/python{0}", "Lib", "Frameworks/Python.framework/Versions/{0}/lib/python{0}")
PACKAGES = ("lib/python{0}/site-packages", "Lib/site-packages", "lib/python3/dist-packages")
MOST_ENTRIES = 5_000  # of a folder that are looked at
LARGEST_TEXT = 1 << 16  # bytes of a configuration or path file
UNUSUAL = frozenset({"idlelib", "lib2to3", "test", "tests"})  # modules that no program imports
# Names that the library has on other systems, or when someone has set them: code may well say them here.
ELSEWHERE = {
    "builtins": "copyright credits exit help license quit",
    "curses": "COLORS COLOR_PAIRS COLS LINES",
    "os": "O_BINARY O_NOINHERIT O_RANDOM O_SEQUENTIAL O_SHORT_LIVED O_TEMPORARY O_TEXT P_DETACH P_OVERLAY "
    "add_dll_directory chflags chown chroot eventfd fchmod fchown fork forkpty getegid geteuid getgid getgroups "
    "getloadavg getpgid getpgrp getsid getuid initgroups killpg lchflags lchmod lchown memfd_create mkfifo nice "
    "openpty posix_fadvise posix_spawn sched_getaffinity sched_setaffinity sendfile setegid seteuid setgid setgroups "
    "setpgid setpriority setsid setuid splice startfile statvfs sync uname wait wait3 wait4",
    "select": "devpoll epoll kevent kqueue poll",
    "signal": "CTRL_BREAK_EVENT CTRL_C_EVENT SIGALRM SIGBREAK SIGCHLD SIGHUP SIGINFO SIGKILL SIGPIPE SIGQUIT SIGSTOP "
    "SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH alarm getitimer pause pthread_sigmask setitimer",
    "socket": "AF_BLUETOOTH AF_HYPERV AF_PACKET AF_SYSTEM AF_UNIX AF_VSOCK SO_EXCLUSIVEADDRUSE SO_REUSEPORT ioctl "
    "socketpair",
    "sys": "dllhandle getwindowsversion gettotalrefcount last_exc last_traceback last_type last_value ps1 ps2 "
    "tracebacklimit winver",
    "time": "clock_gettime clock_settime pthread_getcpuclockid tzset",
}  # fmt: skip
VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", re.MULTILINE)
HOME = re.compile(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)
SHARES = re.compile(r"^include-system-site-packages\s*=\s*true", re.MULTILINE | re.IGNORECASE)


class ModulePlace(NamedTuple):
    """Where a module is: its file with size and time of change (ns), and the folder of its modules if it has any.

    A package without `__init__.py` has only a folder. A compiled module and a library module that this system does
    not have (`foreign`) have neither.
    """

    path: str = ""
    stamp: tuple[int, int] = (0, 0)
    folder: str = ""
    is_foreign: bool = False

    @property
    def is_compiled(self) -> bool:
        """Whether only Python itself knows the module."""
        return not self.path and not self.folder and not self.is_foreign


@dataclass(frozen=True)
class Environment:
    """The folders that hold the standard library, installed packages, and modules of the workspace's own.

    The library belongs to a Python `version`, empty if it is not found. If the environment `is_whole`, nothing is
    installed elsewhere.
    """

    library: str
    version: str
    installed: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def is_own(self) -> bool:
        """Whether this program's own Python has the same library."""
        return self.version == OWN_VERSION

    def place(self, module: str) -> ModulePlace | None:
        """Return where a module of the library or of a package is, None if there is none whose names can be read."""
        parts = module.split(".")
        if not all(map(str.isidentifier, parts)) or self._is_local(parts[0]):
            return None
        without_file: ModulePlace | None = None
        for root in filter(None, (self.library, *self.installed)):
            path = os.path.join(root, *parts)
            for file, folder in ((f"{path}{os.sep}__init__", path), (path, "")):
                for ending in (".pyi", ".py"):
                    if stamp := _stamp(file + ending):
                        return ModulePlace(file + ending, stamp, folder)
            if os.path.isdir(path):
                without_file = ModulePlace(folder=path)
        if without_file:
            return without_file
        if module in sys.builtin_module_names or module in self._compiled:
            return ModulePlace()
        return ModulePlace(is_foreign=True) if self.library and module in sys.stdlib_module_names else None

    def places(self) -> dict[str, str]:
        """Return all modules that can be imported, and in plain words where each one lies."""
        local = frozenset[str]().union(*map(modules_in, self.local))
        found = dict.fromkeys(local, WORKSPACE)
        for folder in reversed(self.installed):
            found |= dict.fromkeys(modules_in(folder), self._named(folder))
        found |= dict.fromkeys(modules_in(self.library) | self._compiled | {*sys.builtin_module_names}, LIBRARY)
        return found | dict.fromkeys(filter(self._is_local, local), WORKSPACE)

    def _is_local(self, name: str) -> bool:
        """Return whether the workspace has a module or package of this name, which comes before all others."""
        return any(is_in(folder, name) for folder in self.local)

    def _named(self, folder: str) -> str:
        """Return a folder as people know it: as it lies in the workspace, or its whole path."""
        above = next((each for each in self.local if folder.startswith(each + os.sep)), None)
        return os.path.relpath(folder, above) if above else folder

    @property
    def _compiled(self) -> frozenset[str]:
        return modules_in(os.path.join(self.library, "lib-dynload")) | modules_in(f"{self.library}/../DLLs")


def find_environment(
    folders: Iterable[Path], chosen: Path | None = None, variables: Mapping[str, str] = os.environ
) -> Environment:
    """Return the environment of a workspace: the `chosen` one (its folder or its Python), else one in the workspace,
    else the environment that was active when this program started. Without any it is this program's own standard
    library.
    """
    places = list(folders)
    local = tuple(str(folder / each) for folder in places for each in ("", "src"))
    candidates = [*([chosen] if chosen else []), *(folder / name for folder in places for name in USUAL)]
    candidates += [Path(active)] if (active := variables.get("VIRTUAL_ENV")) else []
    found = (each for candidate in candidates if (each := _environment_at(candidate, local)))
    return next(found, None) or Environment(sysconfig.get_path("stdlib"), OWN_VERSION, local=local)


def is_in(folder: str, module: str) -> bool:
    """Return whether a folder has a module or package of this name."""
    path = os.path.join(folder, module)
    return os.path.isfile(f"{path}.py") or os.path.isfile(os.path.join(path, "__init__.py"))


def modules_in(folder: str) -> frozenset[str]:
    """Return the names of the modules and packages in a folder, private ones left out."""
    found = set[str]()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MOST_ENTRIES):
            name, dot, ending = entry.name.partition(".")
            is_module = ending in ("py", "pyi") or ending.endswith(("so", "pyd")) if dot else entry.is_dir()
            if is_module and name.isidentifier() and name not in UNUSUAL and not name.startswith("__"):
                found.add(name)
    return frozenset(found)


def _environment_at(candidate: Path, local: tuple[str, ...]) -> Environment | None:
    """Return the environment in a folder, or the environment of a Python; None if there is none."""
    root = candidate.parent.parent if candidate.is_file() else candidate
    configuration = _text(root / CONFIGURATION)
    if configuration:
        version, home = VERSION.search(configuration), HOME.search(configuration)
        versions, homes = [version[1]] if version else [], [Path(home[1])] if home else []
    elif candidate.is_file():  # a Python that was installed for the whole system
        root = Path(os.path.realpath(candidate)).parent.parent
        versions = [each[1] for name in _names(root / "lib") if (each := re.fullmatch(r"python(3\.\d+)", name))]
        mine = re.search(r"3\.\d+", os.path.basename(os.path.realpath(candidate)))
        versions, homes = ([mine[0]] if mine else sorted(versions)[-1:]), [root / "bin"]
    else:
        return None
    if not versions:
        return None
    above = [each for home in homes for each in (home.parent, home)]
    library = next((each for each in _existing(above, LIBRARIES, versions[0])), "")
    installed = tuple(_existing([root], PACKAGES, versions[0]))
    added = tuple(path for folder in installed for path in _added(folder))
    is_whole = not SHARES.search(configuration) and not any(map(_has_finder, installed))
    if not library and versions[0] == OWN_VERSION:
        library = sysconfig.get_path("stdlib")
    return Environment(library, versions[0], (*installed, *added), local, is_whole and bool(library))


def _existing(roots: Iterable[Path], places: Iterable[str], version: str) -> Iterator[str]:
    for root in roots:
        for place in places:
            if (path := root / place.format(version)).is_dir():
                yield str(path)


def _added(folder: str) -> Iterator[str]:
    """Yield the folders that path files add to a folder of packages; lines of code in them are not run."""
    for name in _names(Path(folder)):
        if name.endswith(".pth"):
            for line in _text(Path(folder, name)).splitlines():
                path = os.path.join(folder, line.strip())
                if line.strip() and os.path.isdir(path):
                    yield os.path.normpath(path)


def _has_finder(folder: str) -> bool:
    """Return whether a package is installed in a way that only code can tell where it is."""
    return any(name.startswith("__editable__") and name.endswith("finder.py") for name in _names(Path(folder)))


def _names(folder: Path) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.name for entry in islice(entries, MOST_ENTRIES))
    return []


def _text(path: Path) -> str:
    with suppress(OSError, ValueError), path.open("rb") as file:
        return file.read(LARGEST_TEXT).decode("utf-8", "replace")
    return ""


def _stamp(path: str) -> tuple[int, int] | None:
    """Return size and time of change (ns) of a file, None if there is none."""
    with suppress(OSError, ValueError):
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return found.st_size, found.st_mtime_ns
    return None
