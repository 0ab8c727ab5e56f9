"""A shelf in a folder that a team shares, on a drive that all mount; anybody may have put anything into it.

Values are regular files directly in the team's folder: no link is followed, nothing is opened that could block, and
files with other names are neither listed nor removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname
from uuid import uuid4

from kv_store.shared.shelf import REMEDY, ShelfError, ShelfItem, Stored, Sweeper, is_name, is_old

SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
FOLDER = SAFELY | os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
HAS_DESCRIPTORS = os.open in os.supports_dir_fd  # not on Windows, where links take an administrator's rights


class _Folder(NamedTuple):
    """The team's folder, by a descriptor if the system has these: then nobody can put another in its place."""

    path: str
    descriptor: int | None

    def place(self, name: str) -> str:
        """Return the name of a file relative to the descriptor."""
        return name if self.descriptor is not None else os.path.join(self.path, name)

    def state(self, name: str) -> os.stat_result | None:
        """Return the state of a value, None if there is none, or something else in its place."""
        try:
            found = os.stat(self.place(name), dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    def open(self, name: str, flags: int) -> int:
        """Open a file, and return its descriptor; raises OSError for a link."""
        return os.open(self.place(name), flags | SAFELY, 0o666, dir_fd=self.descriptor)


class FolderShelf:
    """Values as files `PREFIX/NAME`; old values that are still used are written again."""

    def __init__(self, url: str, prefix: str, most_bytes: int | None, largest: int) -> None:
        """Create nothing yet; with `most_bytes` the oldest values beyond them are swept.

        Values of more than `largest` bytes are none of ours.
        """
        self._path, self._prefix = url2pathname(urlsplit(url).path), prefix.replace(":", "/")
        self._largest, self._sweeper = largest, Sweeper(most_bytes)

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        """Return values, None for those that are missing, and write old ones again."""
        with self._folder() as folder:
            return [self._get(folder, name) for name in names]

    def exists(self, names: Sequence[str]) -> list[bool]:
        """Return which values are there and not so old that they should be written again."""
        with self._folder() as folder:
            states = [folder.state(name) for name in names]
        return [state is not None and not is_old(state.st_mtime) for state in states]

    def put_many(self, values: Mapping[str, bytes]) -> int:
        """Write values and return how many."""
        with self._folder() as folder:
            return sum(self._put(folder, name, value) for name, value in values.items())

    def scan(self) -> Iterator[ShelfItem]:
        """Yield all values of the team."""
        with self._folder() as folder:
            return iter([ShelfItem(each.name, each.size) for each in self._values(folder)])

    def retire(self, names: Sequence[str]) -> None:
        """Do nothing: a file keeps its age, and goes by that."""

    def delete(self, names: Sequence[str]) -> int:
        """Remove values and return how many; those that are missing are ignored."""
        with self._folder() as folder:
            return sum(self._delete(folder, name) for name in names)

    def sweep(self) -> None:
        """Remove expired values, and the oldest beyond the most bytes; at most once an hour."""
        if self._sweeper.begin():
            with self._folder() as folder:
                for name in self._sweeper.outdated(self._values(folder)):
                    self._delete(folder, name)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    @contextmanager
    def _folder(self) -> Generator[_Folder]:
        """Open the team's folder, which is created if need be; what fails there is a ShelfError."""
        opened = list[int]()
        try:
            os.makedirs(self._path, exist_ok=True)
            folder = _Folder(self._path, None)
            if HAS_DESCRIPTORS:  # the user names the folder, and may do so by a link
                opened.append(os.open(self._path, FOLDER & ~getattr(os, "O_NOFOLLOW", 0)))
                folder = _Folder(self._path, opened[-1])
            for part in self._prefix.split("/"):
                with suppress(FileExistsError):
                    os.mkdir(folder.place(part), dir_fd=folder.descriptor)
                path = os.path.join(folder.path, part)
                if HAS_DESCRIPTORS:
                    opened.append(os.open(part, FOLDER, dir_fd=folder.descriptor))
                folder = _Folder(path, opened[-1] if opened else None)
            yield folder
        except PermissionError:
            raise ShelfError(f"the shared cache in a folder may not be used; correct its mode, or {REMEDY}") from None
        except OSError:
            raise ShelfError(
                f"the shared cache in a folder cannot be reached, or has no room; see to it there, or {REMEDY}"
            ) from None
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _get(self, folder: _Folder, name: str) -> bytes | None:
        if (state := folder.state(name)) is None:
            return None
        try:
            descriptor = folder.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            is_value = stat.S_ISREG(os.fstat(descriptor).st_mode)  # it may have been replaced
            value = file.read(self._largest + 1) if is_value else b""
        if is_old(state.st_mtime) and is_value and len(value) <= self._largest:
            self._put(folder, name, value)
        return value if len(value) <= self._largest else b""

    def _put(self, folder: _Folder, name: str, value: bytes) -> bool:
        """Write a value whole or not at all; return false where a folder stands in its place.

        While it is written it is called as a value that nobody asks for, and goes as one if its writer is killed.
        """
        temporary = uuid4().hex
        descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(value)
            os.replace(
                folder.place(temporary),
                folder.place(name),
                src_dir_fd=folder.descriptor,
                dst_dir_fd=folder.descriptor,
            )
        except IsADirectoryError:
            self._delete(folder, temporary)
            return False
        except OSError:
            self._delete(folder, temporary)
            raise
        return True

    def _delete(self, folder: _Folder, name: str) -> bool:
        """Remove what a name stands for, unless that is a folder; of a link that is the link itself."""
        try:
            os.unlink(folder.place(name), dir_fd=folder.descriptor)
        except (FileNotFoundError, IsADirectoryError):
            return False
        return True

    def _values(self, folder: _Folder) -> Iterator[Stored]:
        for name in os.listdir(folder.path if folder.descriptor is None else folder.descriptor):
            if is_name(name) and (state := folder.state(name)):
                yield Stored(name, state.st_size, state.st_mtime)
