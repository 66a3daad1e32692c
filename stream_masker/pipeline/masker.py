"""The record masker: records of one partition in, one outcome for each out, and the counts of them all."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch, Tally
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.randomness import FieldKeys, Keys, PositionKeys
from stream_masker.core.statistics.counts import Counts, count_batch, merge
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline.cutting import Counted, cut
from stream_masker.pipeline.envelope import header_treatment, key_treatment, stamp
from stream_masker.pipeline.grouping import GroupTooSmallError, group_header, large_enough, refused
from stream_masker.pipeline.numbers import check_numbers
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reading import RecordReader
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Block, Header, InputRecord, Inputs, Rejected, Result
from stream_masker.pipeline.taken import Taken

BLOCK_RECORDS: Final = 5_000
"""The most records that one block counts; fewer where their arrays would make it too large for a message."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sample:
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
        self._reader = RecordReader(plan, pseudonyms, compiled=compiled)
        self._sampler = RecordReader(plan, pseudonyms, emits=False, compiled=compiled)
        self._treat_keys = key_treatment(plan.message, pseudonyms)
        self._treat_headers = header_treatment(plan.message)

    @property
    def is_compiled(self) -> bool:
        """Whether most records are read by the compiled plan; False for plans that cannot be compiled."""
        return self._reader.is_compiled

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
        headers = stamp(
            statistics_version=statistics_version,
            mechanism=self._mechanism.name,
            configuration=self._plan.configuration,
        )
        columns = Inputs.of(records)
        if self._mechanism.needs_group and len(columns):
            named = [*headers, group_header(columns)]
            with _no_cycle_search():
                return self._mask_group(_Run(topic, partition, columns, statistics_version, named), hold)
        parts = (columns.part(start, start + BLOCK_RECORDS) for start in range(0, len(columns), BLOCK_RECORDS))
        with _no_cycle_search():
            done = [self._mask_run(_Run(topic, partition, part, statistics_version, headers)) for part in parts]
        return Result.joined(done)

    def count(self, values: Iterable[bytes | None]) -> Sample:
        """The counts of records' values, for a first calibration; tombstones are passed over.

        Records are left out for the same reasons as in ``mask``, except for their own alpha and noise key.
        """
        samples = [self._count(run) for run in _runs(values)] or [self._count(Inputs.of([]))]
        rejected = sum((Counter(sample.rejected) for sample in samples), Counter[str]())
        return Sample(merge(sample.counts for sample in samples), dict(rejected))

    def encode(self, values: Iterable[bytes | None]) -> Iterator[Batch]:
        """The records' codes as batches of positions, of the records that ``count`` counts."""
        for run in _runs(values):
            yield self._sampler.take(run).batch

    def _count(self, records: Inputs) -> Sample:
        taken = self._sampler.take(records)
        counts = count_batch(taken.batch, self._sizes, taken.unknown, taken.lost)
        return Sample(counts, _by_reason(taken.rejected.values()))

    def _mask_run(self, run: _Run) -> Result:
        try:
            return self._attempt(run)
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

    def _attempt_group(self, run: _Run, taken: Taken, hold: bool) -> Result:
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

    def _attempt(self, run: _Run) -> Result:
        return self._finish(run, self._reader.take(run.records))

    def _finish(self, run: _Run, taken: Taken) -> Result:
        masked = self._mask_batch(run, taken)
        values: list[bytes | None] = [None] * len(run.records)
        for index, value in zip(taken.indices.tolist(), taken.write(masked), strict=True):
            values[index] = value
        counted = Counted(taken.batch, masked, taken.indices, taken.rejected, taken.unknown, taken.lost)
        return Result(
            offsets=run.records.offsets,
            values=values,
            keys=self._treat_keys(run.records.keys),
            headers=self._treat_headers(run.records, run.stamp),
            timestamps=run.records.timestamps,
            rejected=taken.rejected,
            blocks=self._blocks(run, counted),
        )

    def _mask_batch(self, run: _Run, taken: Taken) -> MaskedBatch:
        batch = taken.batch
        if not batch.size:
            return MaskedBatch(batch.columns, (Tally(),) * len(batch.columns), batch.numeric)
        masked = self._mechanism.mask_batch(batch, self._keys(run, taken))
        for before, after, size in zip(batch.columns, masked.columns, self._sizes, strict=True):
            _check(before, after, size)
        check_numbers(batch.numeric, masked.numeric, [number.kind for number in self._plan.numeric])
        return masked

    def _keys(self, run: _Run, taken: Taken) -> Keys:
        if self._plan.noise_key is not None:
            return FieldKeys(self._secret, taken.keys)
        offsets = np.array(run.records.offsets, dtype=np.int64)
        return PositionKeys(self._secret, run.topic, run.partition, offsets[taken.indices])

    def _blocks(self, run: _Run, counted: Counted) -> list[Block]:
        return [
            self._block(replace(run, records=run.records.part(start, end)), part)
            for start, end, part in cut(counted, len(run.records))
        ]

    def _block(self, run: _Run, counted: Counted) -> Block:
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


def _same(what: str, plan: tuple[str, ...], mechanism: tuple[str, ...]) -> None:
    if plan != mechanism:
        raise ParameterError(f"the plan's {what} are {plan}, the mechanism's {mechanism}")


@contextmanager
def _no_cycle_search() -> Iterator[None]:
    """Holds back Python's search for reference cycles: a batch of records has none, but objects that cause searches."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


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
