"""Where a model's block file is, and how large it may be."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kv_store.disk import messages
from kv_store.disk.block_file import BlockFile
from kv_store.disk.header import BlockFileError, Header, OtherModel, OtherSize
from kv_store.warn_once import WarnOnce


class Location(NamedTuple):
    """A path, the model's fingerprint, the size of most blocks, and the most bytes that the file may take."""

    path: Path
    fingerprint: bytes
    slot_bytes: int
    capacity: int

    @property
    def header(self) -> Header:
        """The header of a new file; it may have no slots."""
        return Header.within(self.capacity, self.fingerprint, self.slot_bytes)

    def open(self, any_size: bool, warnings: WarnOnce) -> BlockFile:
        """Open the file, or create it if it is missing or cannot be used; raises OSError, BlockFileError.

        `any_size` accepts a file that another server has made smaller, and raises OtherSize for a larger one.
        """
        try:
            return self._open_existing(any_size)
        except FileNotFoundError:
            return self._create(any_size)
        except OtherSize as error:
            if any_size:
                raise
            warnings.warn(messages.discarded(error))
        except BlockFileError as error:
            warnings.warn(messages.discarded(error))
        return BlockFile.replace(self.path, self.header)

    def _create(self, any_size: bool) -> BlockFile:
        try:
            return BlockFile.create(self.path, self.header)
        except FileExistsError:  # another server was faster
            return self._open_existing(any_size)

    def _open_existing(self, any_size: bool) -> BlockFile:
        block_file = BlockFile.open(self.path)
        found = block_file.header
        if found.fingerprint != self.fingerprint:
            raise OtherModel("the file is another model's")
        expected = Header.within(self.capacity, self.fingerprint, found.slot_bytes)
        if found.end > self.capacity if any_size else found != expected:
            raise OtherSize("the file was made under another setting of disk_mib")
        return block_file
