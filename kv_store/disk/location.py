"""Where the file of a model is to be, and how large it may be."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kv_store.complaints import Complaints
from kv_store.disk.header import Geometry, OtherModel, OtherSize, SegmentError
from kv_store.disk.segment import Segment


class Home(NamedTuple):
    """A path, the model's fingerprint, the size of most blocks, and bytes that the file never exceeds."""

    path: Path
    fingerprint: bytes
    slot_bytes: int
    capacity: int

    @property
    def geometry(self) -> Geometry:
        """What a new file has; perhaps no slots."""
        return self._with(self.slot_bytes)

    def _with(self, slot_bytes: int) -> Geometry:
        return Geometry.within(self.capacity, self.fingerprint, slot_bytes)

    def open(self, any_size: bool, complaints: Complaints) -> Segment:
        """Open the file, or begin anew where it cannot be used; raises OSError, SegmentError.

        `any_size` accepts what another server has made that may take less; where that may take more there is none.
        """
        try:
            return self._existing(any_size)
        except FileNotFoundError:
            return self._new(any_size)
        except OtherSize as error:
            if any_size:
                raise
            complaints.begins_anew(error)
        except SegmentError as error:
            complaints.begins_anew(error)
        return Segment.replace(self.path, self.geometry)

    def _new(self, any_size: bool) -> Segment:
        try:
            return Segment.create(self.path, self.geometry)
        except FileExistsError:  # another server was faster
            return self._existing(any_size)

    def _existing(self, any_size: bool) -> Segment:
        segment = Segment.open(self.path)
        there = segment.geometry
        if there.fingerprint != self.fingerprint:
            raise OtherModel("its file is another model's")
        if there.end > self.capacity if any_size else there != self._with(there.slot_bytes):
            raise OtherSize("it was made under another setting of its size")
        return segment
