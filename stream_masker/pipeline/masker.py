"""The record masker: masks records, with one outcome for each record, and counts those of a partition in blocks.

A block has the absolute counts of a run of records of one partition. It states what the records *are*, not what
changed, so merging it twice changes nothing, and a later block replaces an earlier one that overlaps.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, islice, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from stream_masker.core.arrays import Int64Array, run_edges
from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch, unchanged_records
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.random import Keys, PositionKeys, Secret
from stream_masker.core.statistics.counts import Counts, count_batch, count_groups, joined, merge
from stream_masker.errors import ParameterError, StatisticsError, StreamMaskerError
from stream_masker.pipeline.codec import Codec, RecordPart
from stream_masker.pipeline.formats import FormatUnavailableError, RecordFormat
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.records import (
    COLUMNS,
    CONFIGURATION_HEADER,
    GROUP_HEADER,
    MECHANISM_HEADER,
    VERSION_HEADER,
    Block,
    Header,
    Inputs,
    Reason,
    Rejected,
    Result,
)
from stream_masker.pipeline.transforms import Pseudonyms, masked_keys

PART_BYTES: Final = 1 << 20
"""The size of records that are read, masked and written together. Of more, the documents leave the processor's cache;
of fewer, each record has a larger share in what is done once a part."""

BLOCK_RECORDS: Final = 5_000
"""The maximum number of records in a block."""

MAX_BLOCK_ROWS: Final = 20_000
"""The rows of a block, about: attributes and pairs of attributes times records. More are split, so that a block fits
into a message of Kafka's default size, 1 MB, even if it is not compressed."""

_log = logging.getLogger(__name__)


class GroupTooSmallError(StreamMaskerError):
    """A group has too few records to be masked. ``lacking``: the least number of further records that it needs."""

    def __init__(self, lacking: int) -> None:
        super().__init__(f"the group has too few records that can be masked: it needs at least {lacking} more")
        self.lacking = lacking


class _Places(NamedTuple):
    """Where n records are: their topic, and (n,) int64 partitions and offsets."""

    topic: str
    partitions: Int64Array
    offsets: Int64Array


class RecordMasker:
    """Masks records by a plan and a mechanism. It has no state of its own: equal input gives equal output.

    It fails closed: a record is rejected unless all its attributes can be read and replaced. A rejection names a
    reason and the configured path, never a value. No record affects the outcome of another one.
    """

    def __init__(
        self, plan: Plan, mechanism: Mechanism, secret: bytes, *, record_format: RecordFormat | None = None
    ) -> None:
        """``record_format``: the format of values, None for JSON.

        Raises ParameterError if plan and mechanism have different attributes, or for a secret of less than 16 bytes.
        """
        names = tuple(attribute.name for attribute in plan.attributes)
        if names != mechanism.attributes:
            raise ParameterError(f"the plan's attributes are {names}, the mechanism's {mechanism.attributes}")
        self._secret = Secret(secret)
        self._plan, self._mechanism = plan, mechanism
        self._sizes = [len(attribute.concepts.taxonomy) for attribute in plan.attributes]
        self._pseudonyms = Pseudonyms(self._secret)
        self._codec = Codec(plan, self._pseudonyms, record_format)

    @property
    def reads_headers(self) -> bool:
        """Whether the plan uses the records' headers. If not, they may be left out of the input."""
        return bool(self._plan.headers)

    def mask(
        self, topic: str, partition: int, records: Inputs, *, statistics_version: int, hold: bool = False
    ) -> Result:
        """Mask records of one partition; see ``mask_all``."""
        return self.mask_all(topic, {partition: records}, statistics_version=statistics_version, hold=hold)[partition]

    def mask_all(
        self, topic: str, inputs: Mapping[int, Inputs], *, statistics_version: int, hold: bool = False
    ) -> dict[int, Result]:
        """Mask records of several partitions, each in the order of their offsets; return the results by partition.

        Every record has one outcome, in the order of the input; at most ``BLOCK_RECORDS`` records share a block. A
        mechanism that masks groups takes all records, of one partition, as one group. If the group is too small, its
        records are rejected, or with ``hold`` GroupTooSmallError is raised. Raises StatisticsError if the mechanism has
        no statistics, and FormatUnavailableError if the records' format cannot decode or encode them now.
        """
        given = Inputs(**joined_columns([*inputs.values()]))
        sizes = [len(own.offsets) for own in inputs.values()]
        partitions, size = np.repeat(np.array([*inputs], np.int64), sizes), sum(sizes)
        places = _Places(topic, partitions, np.array(given.offsets, np.int64))
        records = replace(given, offsets=range(size))
        keys, known = masked_keys(self._plan.key, records.keys, self._pseudonyms), dict[int, Rejected]()
        number = 1 if self._mechanism.needs_group else sum(map(len, filter(None, records.values))) // PART_BYTES + 1
        several = (Inputs(**cut_columns(records, *ends)) for ends in _cuts(0, size, number))
        parts = [one for some in several for one in self._mask_part(some, places, known, hold=hold)]
        values = list(chain.from_iterable(part.values for part in parts))
        rejected = dict(chain.from_iterable(part.rejected.items() for part in parts))
        tally, blocks = sum((part.tally for part in parts), Counter()), self._blocks(places, given, parts)
        results = dict[int, Result]()
        for (partition, own), (start, end) in zip(inputs.items(), pairwise(accumulate(sizes, initial=0)), strict=True):
            results[partition] = Result(
                offsets=own.offsets,
                values=values[start:end],
                keys=keys[start:end],
                headers=self._headers(own, statistics_version),
                timestamps=own.timestamps,
                rejected={given.offsets[number]: one for number, one in rejected.items() if start <= number < end},
                blocks=[block for block in blocks if block.partition == partition],
                tally=Counter() if results else tally,
            )
        return results

    def count(self, parts: Iterable[RecordPart]) -> Counts:
        """Return the counts of records that are read, at least one part, for a first calibration."""
        return merge(count_batch(part.batch, self._sizes) for part in parts)

    def read(self, values: Iterable[bytes | None]) -> Iterator[RecordPart]:
        """Yield what is read of records' values, at most ``BLOCK_RECORDS`` at a time; at least once.

        Records are rejected for the same reasons as by ``mask``.
        """
        rest, size = iter(values), BLOCK_RECORDS
        while size == BLOCK_RECORDS:
            some = list(islice(rest, BLOCK_RECORDS))
            size = len(some)
            yield self._codec.read(Inputs(offsets=range(size), values=some, keys=(), timestamps=()))

    def _blocks(self, places: _Places, records: Inputs, parts: Sequence[RecordPart]) -> list[Block]:
        """Return the blocks of the parts that ``records`` were masked in, usually one for each partition.

        Distortions are known only for whole parts: those of all are in the first block, which leaves their sum correct.
        """
        batch = joined([part.batch for part in parts])
        masked = joined([Batch(part.batch.size, part.masked.columns) for part in parts])
        starts = accumulate((len(part.values) for part in parts), initial=0)
        numbers = np.concatenate([part.indices + start for part, start in zip(parts, starts, strict=False)])
        distortions = zip(*(part.masked.distortions for part in parts), strict=True)
        totals = tuple(sum(others, first) for first, *others in distortions)
        ranges = list(_ranges(batch, numbers, places.partitions))
        own = np.repeat(np.arange(len(ranges)), [end - start for start, end in ranges])[numbers]
        before, after = count_groups([batch, masked], self._sizes, own, len(ranges))
        unchanged = np.bincount(own, unchanged_records(batch, masked), len(ranges)).astype(int).tolist()
        return [
            Block(
                topic=places.topic,
                partition=int(places.partitions[start]),
                first_offset=records.offsets[start],
                last_offset=records.offsets[end - 1],
                timestamp=max(records.timestamps[start:end]),
                original=before[k],
                masked=after[k],
                distortions=(Distortion(),) * len(totals) if start else totals,
                unchanged=unchanged[k],
            )
            for k, (start, end) in enumerate(ranges)
        ]

    def _headers(self, records: Inputs, version: int) -> list[list[Header]]:
        """Return the headers that the policy names, in their order, and those that state how a record was masked."""
        kept = frozenset(self._plan.headers)
        own = stamp(version, self._mechanism.name, self._plan.configuration)
        if self._mechanism.needs_group and records.offsets:
            own.append((GROUP_HEADER, f"{records.offsets[0]}-{records.offsets[-1]}".encode()))
        if not kept:
            return [own] * len(records.offsets)
        return [[*(header for header in headers if header[0] in kept), *own] for headers in records.headers]

    def _mask_part(
        self, records: Inputs, places: _Places, known: dict[int, Rejected], *, hold: bool
    ) -> list[RecordPart]:
        """Mask consecutive records, which have numbers instead of offsets. If that fails, mask each half of them, and
        reject a single record.

        known: the rejections that are known before, by number; others are added. hold: whether to hold a group.

        Of a group, none is masked without the others: all are rejected, or held by GroupTooSmallError. Records that
        turn out to be unwritable are left out, because the others are still a group.
        """
        reason, size, offsets = Reason.INTERNAL_ERROR, len(records.offsets), records.offsets
        rejected: Mapping[int, Rejected] = {}
        try:
            part = self._codec.read(records, known)
            rejected = part.rejected
            unwritable = self._codec.write(part, self._mask_batch(places, part, offsets), offsets)
            if not unwritable:
                return [part]
            known |= unwritable
            return self._mask_part(records, places, known, hold=hold)
        except (StatisticsError, FormatUnavailableError):  # no record is to blame
            raise
        except GroupTooSmallError:
            if hold:
                raise
            reason = Reason.GROUP_TOO_SMALL
        except Exception as error:  # noqa: BLE001
            if size > 1 and not self._mechanism.needs_group:
                middle = size // 2
                halves = [Inputs(**cut_columns(records, *half)) for half in ((0, middle), (middle, size))]
                return [one for half in halves for one in self._mask_part(half, places, known, hold=hold)]
            first, last = places.offsets[[offsets[0], offsets[-1]]].tolist()
            place = f"group at offsets {first} to {last}" if size > 1 else f"record at offset {first}"
            _log.error("masking the %s failed (%s)", place, type(error).__name__)
        given = zip(offsets, records.values, strict=True)
        known |= {**{offset: Rejected(reason) for offset, value in given if value is not None}, **rejected}
        return self._mask_part(records, places, known, hold=hold)

    def _mask_batch(self, places: _Places, part: RecordPart, numbers: Sequence[int]) -> MaskedBatch:
        """Mask a batch; ``numbers``: of its records. Raises GroupTooSmallError if it has too few units.

        A unit is a record or, for a mechanism that counts units, all records with one noise key.
        """
        batch, mechanism = part.batch, self._mechanism
        if not batch.size:
            return MaskedBatch(batch.columns, (Distortion(),) * len(batch.columns))
        keys: Keys | None = part.keys
        if keys is None:
            some = np.array(numbers, np.int64)[part.indices]
            keys = PositionKeys(self._secret, places.topic, places.partitions[some], places.offsets[some])
        elif mechanism.needs_group and mechanism.counts_units:
            batch = replace(batch, units=np.unique(keys.digests[:, 0], return_inverse=True)[1])
        if mechanism.needs_group and (lacking := mechanism.group_minimum - batch.unit_count) > 0:
            raise GroupTooSmallError(lacking)
        try:
            masked = mechanism.mask_batch(batch, keys)
        except ParameterError as error:
            if not mechanism.needs_group:
                raise
            raise GroupTooSmallError(1) from error
        for before, after, size in zip(batch.columns, masked.columns, self._sizes, strict=True):
            _check_codes(before, after, size)
        return masked


def joined_columns(parts: Sequence[Inputs]) -> dict[str, Any]:
    """Return the columns of all parts, one part after the other."""
    return {name: list(chain.from_iterable(getattr(part, name) for part in parts)) for name in COLUMNS}


def cut_columns(records: Inputs, start: int, end: int) -> dict[str, Any]:
    """Return the columns of the records ``start`` to ``end`` (exclusive)."""
    return {name: getattr(records, name)[start:end] for name in COLUMNS}


def stamp(version: int, mechanism: str, configuration: str) -> list[Header]:
    """Return the headers that state how a record was masked; ``configuration``: the configuration's hash."""
    values = {VERSION_HEADER: str(version), MECHANISM_HEADER: mechanism, CONFIGURATION_HEADER: configuration}
    return [(name, value.encode()) for name, value in values.items()]


def _ranges(batch: Batch, numbers: Int64Array, partitions: Int64Array) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the records of each block.

    batch, numbers: the records that can be masked, and their numbers among all; partitions: (n,) of all records.
    """
    pairs = len(batch.columns) * (len(batch.columns) + 1) // 2
    rows = np.zeros(partitions.size + 1, np.int64)
    rows[numbers + 1] = pairs * np.maximum.reduce([column.lengths for column in batch.columns])
    edges = run_edges(partitions)
    before = rows.cumsum()[edges].tolist()
    for (start, end), (first, last) in zip(pairwise(edges.tolist()), pairwise(before), strict=True):
        size = end - start
        yield from _cuts(start, end, max(-(-size // BLOCK_RECORDS), min(size, -(-(last - first) // MAX_BLOCK_ROWS))))


def _cuts(start: int, end: int, parts: int) -> Iterator[tuple[int, int]]:
    """Return the bounds of consecutive parts of about equal sizes."""
    return pairwise(start + (end - start) * k // parts for k in range(parts + 1))


def _check_codes(before: Column, after: Column, size: int) -> None:
    """Raise ValueError unless exactly the present values have been replaced, by concepts of their taxonomy."""
    old, new = before.codes, after.codes
    if new.shape != old.shape or ((old >= 0) != (new >= 0)).any() or new.max(initial=0) >= size:
        raise ValueError("the mechanism did not mask every value")
