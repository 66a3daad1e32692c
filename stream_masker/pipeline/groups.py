"""Records masked as a group: what names the group, and what becomes of one that is too small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from stream_masker.core.batch import Batch
from stream_masker.errors import ParameterError, StreamMaskerError
from stream_masker.pipeline.calibration.blocks import rows_of
from stream_masker.pipeline.codec.decoded import DecodedBatch
from stream_masker.pipeline.plan import OWN_HEADERS
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Header, Inputs, Rejected

GROUP_HEADER: Final = OWN_HEADERS + "group"

T = TypeVar("T")


class GroupTooSmallError(StreamMaskerError):
    """A group has too few records to be masked. ``lacking``: how many more it needs at least."""

    def __init__(self, lacking: int) -> None:
        super().__init__(f"the group has too few records that can be masked: it needs {lacking} more at least")
        self.lacking = lacking


def group_header(records: Inputs) -> Header:
    """Names the group by its first and last offset: all records between them are its own, in their partition."""
    return GROUP_HEADER, f"{records.offsets[0]}-{records.offsets[-1]}".encode()


def large_enough(batch: Batch, least: int, mask: Callable[[], T]) -> T:
    """What ``mask`` gives of a batch. Raises GroupTooSmallError for fewer than ``least`` records, and where the
    mechanism finds that its data are too few (ParameterError)."""
    if batch.size < least:
        raise GroupTooSmallError(least - batch.size)
    try:
        return mask()
    except ParameterError as error:
        raise GroupTooSmallError(1) from error


def refused(taken: DecodedBatch, records: Inputs, reason: Reason) -> DecodedBatch:
    """All records that could have been masked rejected, for one reason; tombstones pass."""
    own = {index: Rejected(records.offsets[index], reason.value) for index in taken.indices.tolist()}
    return DecodedBatch(
        indices=taken.indices[:0],
        batch=rows_of(taken.batch, 0, 0),
        keys=[],
        rejected={**taken.rejected, **own},
        unknown=taken.lost,
        lost=taken.lost,
        write=lambda _: [],
    )
