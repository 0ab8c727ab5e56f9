"""Where the file of a model is to be, and how large it may be."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kv_store.complaints import Complaints
from kv_store.geometry import Geometry, OtherModel, OtherSize, SegmentError
from kv_store.segment import Segment


class Home(NamedTuple):
    """A path, the model's fingerprint, the size of most blocks, and bytes that the file never exceeds."""

    path: Path
    fingerprint: bytes
    slot_bytes: int
    capacity: int

    @property
    def geometry(self) -> Geometry:
        """What a new file has; perhaps no slots."""
        return Geometry.within(self.capacity, self.fingerprint, self.slot_bytes)

    def open(self, any_size: bool, complaints: Complaints) -> Segment:
        """Open the file, or begin anew where it cannot be used; raises OSError, SegmentError.

        `any_size` accepts what another server has made, which may be allowed more or less.
        """
        try:
            return self._existing(any_size)
        except FileNotFoundError:
            pass
        except SegmentError as error:
            complaints.begins_anew(error)
        return Segment.create(self.path, self.geometry)

    def _existing(self, any_size: bool) -> Segment:
        segment = Segment.open(self.path)
        there = segment.geometry
        if there.fingerprint != self.fingerprint:
            raise OtherModel("its file is another model's")
        if not any_size and there != Geometry.within(self.capacity, self.fingerprint, there.slot_bytes):
            raise OtherSize("it is to have another size")
        return segment
