"""Groups of records that are masked together: the header that names a group, and groups that are too small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from stream_masker.core.batch import Batch
from stream_masker.errors import ParameterError, StreamMaskerError
from stream_masker.pipeline.codec.base import DecodedBatch, TemplatesT
from stream_masker.pipeline.plan import OWN_HEADERS
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Header, Inputs, Rejected
from stream_masker.pipeline.style import StyleCounts

GROUP_HEADER: Final = OWN_HEADERS + "group"

T = TypeVar("T")


class GroupTooSmallError(StreamMaskerError):
    """A group has too few records to be masked. ``lacking``: the least number of further records that it needs."""

    def __init__(self, lacking: int) -> None:
        super().__init__(f"the group has too few records that can be masked: it needs at least {lacking} more")
        self.lacking = lacking


def group_header(records: Inputs) -> Header:
    """Return the header that names a group by its first and last offset; the group has no gaps in its partition."""
    return GROUP_HEADER, f"{records.offsets[0]}-{records.offsets[-1]}".encode()


def mask_group(batch: Batch, minimum: int, mask: Callable[[], T]) -> T:
    """Call ``mask`` for a batch that is large enough.

    Raises GroupTooSmallError for fewer than ``minimum`` units, and if the mechanism itself finds that its data are too
    few (ParameterError).
    """
    if batch.unit_count < minimum:
        raise GroupTooSmallError(minimum - batch.unit_count)
    try:
        return mask()
    except ParameterError as error:
        raise GroupTooSmallError(1) from error


def reject_all(decoded: DecodedBatch[TemplatesT], records: Inputs, reason: Reason) -> DecodedBatch[TemplatesT]:
    """Reject, for one reason, all records that could have been masked. Tombstones are not rejected."""
    rejected = {index: Rejected(records.offsets[index], reason.value) for index in decoded.indices.tolist()}
    return replace(
        decoded,
        indices=decoded.indices[:0],
        batch=decoded.batch.take(decoded.indices[:0]),
        keys=[],
        rejected={**decoded.rejected, **rejected},
        unknown=decoded.lost,
        styles=[StyleCounts()] * len(decoded.styles),
    )
