"""Runs: consecutive records of one partition that are masked together, and their noise keys.

Runs of several partitions are masked in one call, which saves the fixed costs of a call. Every record keeps the noise
of its own partition and offset. Mechanisms that need groups mask a run as a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, pairwise
from typing import Any, Final, TypeVar

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.random import FieldKeys, Keys, PositionKeys, Secret
from stream_masker.errors import ParameterError, StreamMaskerError
from stream_masker.pipeline.codec.base import DecodedBatch, TemplatesT
from stream_masker.pipeline.plan import OWN_HEADERS
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Header, Inputs, Rejected
from stream_masker.pipeline.style import StyleCounts

BLOCK_RECORDS: Final = 5_000
"""The maximum number of records in a block; a block with large arrays has fewer, so that it fits into a message."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one partition that are masked together and counted in one block.

    unwritable: rejections of records that did not fit their schema once they were masked, by index.
    """

    topic: str
    partition: int
    records: Inputs
    statistics_version: int
    stamp: list[Header]
    unwritable: Mapping[int, Rejected] = field(default_factory=dict)

    def without(self, rejected: Mapping[int, Rejected]) -> Run:
        """Return the run, with further records that are rejected as unwritable."""
        return replace(self, unwritable={**self.unwritable, **rejected})

    def split(self) -> Iterator[Run]:
        """Yield the run as runs of at most ``BLOCK_RECORDS`` records."""
        size = len(self.records)
        for start in range(0, size, BLOCK_RECORDS):
            part = self.records.part(start, start + BLOCK_RECORDS) if size > BLOCK_RECORDS else self.records
            yield replace(self, records=part)


def run_spans(runs: Sequence[Run]) -> Iterator[tuple[Run, tuple[int, int]]]:
    """Yield each run, with the start and end of its records among those of all runs."""
    return zip(runs, pairwise(accumulate((len(run.records) for run in runs), initial=0)), strict=True)


def split_values(values: Iterable[bytes | None]) -> Iterator[Inputs]:
    """Yield values as records, at most ``BLOCK_RECORDS`` at a time."""
    rest = iter(values)
    while run := list(islice(rest, BLOCK_RECORDS)):
        size = len(run)
        yield Inputs(offsets=range(size), values=run, keys=[None] * size, timestamps=[-1] * size)


def pack_runs(runs: Iterable[Run], limit: int) -> Iterator[list[Run]]:
    """Yield packs of consecutive runs with at most ``limit`` records in total; a larger run is a pack of its own."""
    pack: list[Run] = []
    size = 0
    for run in runs:
        if pack and size + len(run.records) > limit:
            yield pack
            pack, size = [], 0
        pack.append(run)
        size += len(run.records)
    if pack:
        yield pack


class NoiseKeys:
    """by_field: noise depends on a field of the record, not on the record's topic, partition and offset."""

    def __init__(self, secret: Secret, *, by_field: bool) -> None:
        self._secret = secret
        self._by_field = by_field
        self._identities: Mapping[str, str] = {}

    def set_identities(self, identities: Mapping[str, str]) -> None:
        """Set what distinguishes each topic from an earlier one of the same name; positions include it."""
        self._identities = dict(identities)

    def source(self, topic: str) -> str:
        """Return the topic with what distinguishes it from an earlier one of the same name."""
        identity = self._identities.get(topic)
        return f"{topic}\0{identity}" if identity else topic

    def of(self, runs: Sequence[Run], decoded: DecodedBatch[Any]) -> Keys:
        """Return the keys of the decoded records of runs that were decoded together."""
        if self._by_field:
            return FieldKeys(self._secret, decoded.keys)
        keys = [
            self._position_keys(run, decoded.indices[slice(*np.searchsorted(decoded.indices, span))] - span[0])
            for run, span in run_spans(runs)
        ]
        return keys[0] if len(keys) == 1 else Keys(self._secret, np.concatenate([each.digests for each in keys]))

    def _position_keys(self, run: Run, indices: Int64Array) -> Keys:
        offsets = np.array(run.records.offsets, dtype=np.int64)
        return PositionKeys(self._secret, self.source(run.topic), run.partition, offsets[indices])


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
