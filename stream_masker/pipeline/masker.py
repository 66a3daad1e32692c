"""The record masker: records of one partition in, one outcome for each out, and the counts of them all."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch, Tally
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.random.keys import FieldKeys, Keys, PositionKeys
from stream_masker.core.statistics.counts import Counts, count_batch, merge
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline.calibration.blocks import CountedRecords, part_of, split_into_blocks
from stream_masker.pipeline.codec.codec import RecordCodec
from stream_masker.pipeline.codec.decoded import DecodedBatch
from stream_masker.pipeline.codec.numbers import check_numbers
from stream_masker.pipeline.envelope import header_treatment, key_treatment, stamp
from stream_masker.pipeline.groups import GroupTooSmallError, group_header, large_enough, refused
from stream_masker.pipeline.packing import SeveralKeys, pack_runs
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Block, Header, InputRecord, Inputs, Rejected, Result

BLOCK_RECORDS: Final = 5_000
"""The most records that one block counts; fewer where their arrays would make it too large for a message."""

JOINT_RECORDS: Final = 16_384
"""The most records of several partitions that are masked at once: more gain nothing, and leave the caches."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The counts of a sample's records, and how many records were left out of them, by reason."""

    counts: Counts
    rejected: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive records of one partition that make one block."""

    topic: str
    partition: int
    records: Inputs
    statistics_version: int
    stamp: list[Header]

    def parts(self) -> Iterator[_Run]:
        """The same in parts of at most ``BLOCK_RECORDS``."""
        size = len(self.records)
        for start in range(0, size, BLOCK_RECORDS):
            part = self.records.part(start, start + BLOCK_RECORDS) if size > BLOCK_RECORDS else self.records
            yield replace(self, records=part)


class RecordMasker:
    """Masks records as a plan says, by a mechanism. Keeps nothing but caches: equal input gives equal output.

    Fail closed: a record whose attributes cannot all be read and rewritten is rejected, with a reason and the
    configured path to blame, never a value. No record changes what becomes of another.
    """

    def __init__(self, plan: Plan, mechanism: Mechanism, secret: bytes, *, compiled: bool = True) -> None:
        """``compiled``: False reads every record literally, which is slow and comes to the same.

        Raises ParameterError when plan and mechanism have different attributes, or the secret is empty.
        """
        _same("attributes", tuple(attribute.name for attribute in plan.attributes), mechanism.attributes)
        _same("numeric attributes", tuple(number.name for number in plan.numeric), mechanism.numeric_attributes)
        pseudonyms = Pseudonyms(secret)
        self._plan = plan
        self._mechanism = mechanism
        self._secret = secret
        self._sizes = [len(attribute.concepts.taxonomy) for attribute in plan.attributes]
        self._reader = RecordCodec(plan, pseudonyms, compiled=compiled)
        self._sampler = RecordCodec(plan, pseudonyms, emits=False, compiled=compiled)
        self._treat_keys = key_treatment(plan.message, pseudonyms)
        self._treat_headers = header_treatment(plan.message)

    @property
    def is_compiled(self) -> bool:
        """Whether most records are read by the compiled plan; False for plans that cannot be compiled."""
        return self._reader.is_compiled

    @property
    def needs_group(self) -> bool:
        """Whether the mechanism masks groups, each of records of one partition: then there is no ``mask_all``."""
        return self._mechanism.needs_group

    @property
    def reads_headers(self) -> bool:
        """Whether records' headers make a difference; otherwise they need not be given."""
        alpha = self._plan.alpha
        return bool(self._plan.message.headers) or (alpha is not None and alpha.header is not None)

    def mask(
        self,
        topic: str,
        partition: int,
        records: Inputs | Sequence[InputRecord],
        *,
        statistics_version: int,
        hold: bool = False,
    ) -> Result:
        """Masks records of one partition, in the order of their offsets.

        Every record has one outcome, in the input's order; every ``BLOCK_RECORDS`` records one block. A mechanism
        that masks groups takes all of them as one group: when that is too small, ``hold`` raises GroupTooSmallError,
        and otherwise its records are rejected. Raises StatisticsError when the mechanism has no statistics.
        """
        run = _Run(topic, partition, Inputs.of(records), statistics_version, self._stamp(statistics_version))
        if self._mechanism.needs_group and len(run.records):
            return self._mask_group(replace(run, stamp=[*run.stamp, group_header(run.records)]), hold)
        return Result.joined([self._mask_run(part) for part in run.parts()])

    def mask_all(self, topic: str, records: Mapping[int, Inputs], *, statistics_version: int) -> dict[int, Result]:
        """Masks records of several partitions, none of them empty: each partition's as ``mask`` does, but faster.

        Of partitions that are masked at once, what is known of them together (tallies, values that found no concept)
        stands in the first block. Raises ParameterError for a mechanism that masks groups, and like ``mask``.
        """
        if self._mechanism.needs_group:
            raise ParameterError(f"{self._mechanism.name} masks groups, each of one partition")
        own = self._stamp(statistics_version)
        runs = [p for k, i in records.items() for p in _Run(topic, k, i, statistics_version, own).parts()]
        results: dict[int, list[Result]] = {partition: [] for partition in records}
        for pack in pack_runs(runs, JOINT_RECORDS):
            for run, result in zip(pack, self._mask_runs(pack), strict=True):
                results[run.partition].append(result)
        return {partition: Result.joined(parts) for partition, parts in results.items()}

    def _stamp(self, statistics_version: int) -> list[Header]:
        return stamp(
            statistics_version=statistics_version,
            mechanism=self._mechanism.name,
            configuration=self._plan.configuration,
        )

    def count(self, values: Iterable[bytes | None]) -> SampleCounts:
        """The counts of records' values, for a first calibration; tombstones are passed over.

        Records are left out for the same reasons as in ``mask``, except for their own alpha and noise key.
        """
        samples = [self._count(run) for run in _runs(values)] or [self._count(Inputs.of([]))]
        rejected = sum((Counter(sample.rejected) for sample in samples), Counter[str]())
        return SampleCounts(merge(sample.counts for sample in samples), dict(rejected))

    def encode(self, values: Iterable[bytes | None]) -> Iterator[Batch]:
        """The records' codes as batches of positions, of the records that ``count`` counts."""
        for run in _runs(values):
            yield self._sampler.take(run).batch

    def _count(self, records: Inputs) -> SampleCounts:
        taken = self._sampler.take(records)
        counts = count_batch(taken.batch, self._sizes, taken.unknown, taken.lost)
        return SampleCounts(counts, _by_reason(taken.rejected.values()))

    def _mask_runs(self, runs: Sequence[_Run]) -> Sequence[Result]:
        """Masks runs at once; one by one where that fails."""
        if len(runs) > 1:
            try:
                records = Inputs.joined([run.records for run in runs])
                return self._finish_all(runs, records, self._reader.take(records))
            except StatisticsError:
                raise
            except Exception as error:  # noqa: BLE001
                _log.warning("masking partitions at once failed (%s); masking one by one", type(error).__name__)
        return [self._mask_run(run) for run in runs]

    def _mask_run(self, run: _Run) -> Result:
        try:
            return self._finish(run, self._reader.take(run.records))
        except StatisticsError:
            raise
        except Exception as error:  # noqa: BLE001
            _log.warning("masking a batch failed (%s); masking its records one by one", type(error).__name__)
            return self._one_by_one(run)

    def _mask_group(self, run: _Run, hold: bool) -> Result:
        """Never one by one: a record is masked with its group, or not at all."""
        try:
            return self._attempt_group(run, self._reader.take(run.records), hold)
        except (StatisticsError, GroupTooSmallError):
            raise
        except Exception as error:  # noqa: BLE001
            place = f"topic {run.topic}, partition {run.partition}, offsets {run.records.offsets[0]} to "
            _log.error("masking the group at %s%d failed (%s)", place, run.records.offsets[-1], type(error).__name__)
            taken = self._reader.take_literally(run.records)
            return self._finish(run, refused(taken, run.records, Reason.INTERNAL_ERROR))

    def _attempt_group(self, run: _Run, taken: DecodedBatch, hold: bool) -> Result:
        if not len(taken.indices):
            return self._finish(run, taken)
        try:
            return large_enough(taken.batch, self._mechanism.group_minimum, lambda: self._finish(run, taken))
        except GroupTooSmallError:
            if hold:
                raise
            return self._finish(run, refused(taken, run.records, Reason.GROUP_TOO_SMALL))

    def _one_by_one(self, run: _Run) -> Result:
        singly = (run.records.part(index, index + 1) for index in range(len(run.records)))
        result = Result.joined([self._mask_alone(replace(run, records=record)) for record in singly])
        return replace(result, blocks=[_joined(result.blocks)])

    def _mask_alone(self, run: _Run) -> Result:
        try:
            return self._finish(run, self._reader.take_literally(run.records))
        except StatisticsError:
            raise
        except Exception as error:  # noqa: BLE001
            offset = run.records.offsets[0]
            place = f"topic {run.topic}, partition {run.partition}, offset {offset}"
            _log.error("masking the record at %s failed (%s)", place, type(error).__name__)
            return self._finish(run, self._reader.refuse(Rejected(offset, Reason.INTERNAL_ERROR.value)))

    def _finish(self, run: _Run, taken: DecodedBatch) -> Result:
        return self._finish_all([run], run.records, taken)[0]

    def _finish_all(self, runs: Sequence[_Run], records: Inputs, taken: DecodedBatch) -> list[Result]:
        """The results of runs whose records were taken together."""
        masked = self._mask_batch(runs, taken)
        values: list[bytes | None] = [None] * len(records)
        for index, value in zip(taken.indices.tolist(), taken.write(masked), strict=True):
            values[index] = value
        keys = self._treat_keys(records.keys)
        counted = CountedRecords(taken.batch, masked, taken.indices, taken.rejected, taken.unknown, taken.lost)
        return [
            self._result(run, values[start:end], keys[start:end], part_of(counted, start, end))
            for run, (start, end) in _spans(runs)
        ]

    def _result(
        self, run: _Run, values: list[bytes | None], keys: Sequence[bytes | None], counted: CountedRecords
    ) -> Result:
        return Result(
            offsets=run.records.offsets,
            values=values,
            keys=keys,
            headers=self._treat_headers(run.records, run.stamp),
            timestamps=run.records.timestamps,
            rejected=counted.rejected,
            blocks=self._blocks(run, counted),
        )

    def _mask_batch(self, runs: Sequence[_Run], taken: DecodedBatch) -> MaskedBatch:
        batch = taken.batch
        if not batch.size:
            return MaskedBatch(batch.columns, (Tally(),) * len(batch.columns), batch.numeric)
        masked = self._mechanism.mask_batch(batch, self._keys(runs, taken))
        for before, after, size in zip(batch.columns, masked.columns, self._sizes, strict=True):
            _check(before, after, size)
        check_numbers(batch.numeric, masked.numeric, [number.kind for number in self._plan.numeric])
        return masked

    def _keys(self, runs: Sequence[_Run], taken: DecodedBatch) -> Keys:
        if self._plan.noise_key is not None:
            return FieldKeys(self._secret, taken.keys)
        found = [
            self._position_keys(run, taken.indices[slice(*np.searchsorted(taken.indices, span))] - span[0])
            for run, span in _spans(runs)
        ]
        return found[0] if len(found) == 1 else SeveralKeys(found)

    def _position_keys(self, run: _Run, indices: Int64Array) -> Keys:
        offsets = np.array(run.records.offsets, dtype=np.int64)
        return PositionKeys(self._secret, run.topic, run.partition, offsets[indices])

    def _blocks(self, run: _Run, counted: CountedRecords) -> list[Block]:
        return [
            self._block(replace(run, records=run.records.part(start, end)), part)
            for start, end, part in split_into_blocks(counted, len(run.records))
        ]

    def _block(self, run: _Run, counted: CountedRecords) -> Block:
        return Block(
            topic=run.topic,
            partition=run.partition,
            first_offset=run.records.offsets[0],
            last_offset=run.records.offsets[-1],
            timestamp=max(run.records.timestamps),
            statistics_version=run.statistics_version,
            original=count_batch(counted.batch, self._sizes, counted.unknown, counted.lost),
            masked=count_batch(
                Batch(counted.batch.size, counted.masked.columns, numeric=counted.masked.numeric), self._sizes
            ),
            tallies=counted.masked.tallies,
            rejected=_by_reason(counted.rejected.values()),
        )


def _spans(runs: Sequence[_Run]) -> Iterator[tuple[_Run, tuple[int, int]]]:
    """Each run, and where its records begin and end among those of all."""
    return zip(runs, pairwise(accumulate((len(run.records) for run in runs), initial=0)), strict=True)


def _same(what: str, plan: tuple[str, ...], mechanism: tuple[str, ...]) -> None:
    if plan != mechanism:
        raise ParameterError(f"the plan's {what} are {plan}, the mechanism's {mechanism}")


def _check(before: Column, after: Column, size: int) -> None:
    """Raises ValueError unless exactly the values that were there have become concepts of their taxonomy."""
    there = before.codes >= 0
    if not np.array_equal(there, after.codes >= 0) or (after.codes >= size).any():
        raise ValueError("the mechanism did not mask every value")


def _by_reason(rejected: Iterable[Rejected]) -> dict[str, int]:
    return dict(Counter(one.reason for one in rejected))


def _runs(values: Iterable[bytes | None]) -> Iterator[Inputs]:
    rest = iter(values)
    while run := list(islice(rest, BLOCK_RECORDS)):
        size = len(run)
        yield Inputs(offsets=range(size), values=run, keys=[None] * size, timestamps=[-1] * size)


def _joined(blocks: Sequence[Block]) -> Block:
    """The block of consecutive records that have a block each."""
    columns = zip(*(block.tallies for block in blocks), strict=True)
    return replace(
        blocks[0],
        last_offset=blocks[-1].last_offset,
        timestamp=max(block.timestamp for block in blocks),
        original=merge(block.original for block in blocks),
        masked=merge(block.masked for block in blocks),
        tallies=tuple(sum(column, Tally()) for column in columns),
        rejected=dict(sum((Counter(block.rejected) for block in blocks), Counter[str]())),
    )
