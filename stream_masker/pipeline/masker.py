"""The record masker: masks the records of a partition, with one outcome for each record, and counts them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Int64Array, UInt64Matrix
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.random import FieldKeys, Keys, PositionKeys, Secret
from stream_masker.errors import ParameterError, StatisticsError, StreamMaskerError
from stream_masker.pipeline.blocks import BLOCK_RECORDS, BlockCounter, MaskedRecords, SampleCounts
from stream_masker.pipeline.codec import DOCUMENTS, Codec, DecodedBatch
from stream_masker.pipeline.formats import (
    KEY_FIELD,
    FormattedKeys,
    FormatUnavailableError,
    RecordFormat,
    UnwritableRecordsError,
)
from stream_masker.pipeline.plan import FieldPolicy, Plan
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import (
    GROUP_HEADER,
    Header,
    InputRecord,
    Inputs,
    Rejected,
    Result,
    rejected_part,
    stamp,
)
from stream_masker.pipeline.style import Style
from stream_masker.pipeline.transforms import Pseudonyms

NOT_OF_RECORDS: Final = (StatisticsError, FormatUnavailableError)
"""The errors whose cause lies outside of the records. No record is rejected for them."""

_log = logging.getLogger(__name__)


class GroupTooSmallError(StreamMaskerError):
    """A group has too few records to be masked. ``lacking``: the least number of further records that it needs."""

    def __init__(self, lacking: int) -> None:
        super().__init__(f"the group has too few records that can be masked: it needs at least {lacking} more")
        self.lacking = lacking


@dataclass(frozen=True, slots=True)
class _Unmasked:
    """Records to mask together. digests: of their positions, if noise is by position; rejected: those that are known
    to be, by index."""

    records: Inputs
    digests: UInt64Matrix | None
    rejected: Mapping[int, Rejected]

    def part(self, start: int, end: int) -> _Unmasked:
        """Return the records ``start`` to ``end`` (exclusive)."""
        rejected = rejected_part(self.rejected, start, end)
        digests = None if self.digests is None else self.digests[start:end]
        return _Unmasked(self.records.part(start, end), digests, rejected)

    def without(self, rejected: Mapping[int, Rejected]) -> _Unmasked:
        """Return the records with further rejections."""
        return replace(self, rejected={**self.rejected, **rejected})

    def rejecting(self, reason: Reason, indices: Iterable[int]) -> _Unmasked:
        """Return the records with further rejections, all for one reason."""
        return self.without({index: Rejected(self.records.offsets[index], reason.value) for index in indices})


class RecordMasker:
    """Masks records by a plan and a mechanism. Its only state are the styles, which a statistics version brings: equal
    input gives equal output.

    It fails closed: a record is rejected unless all its attributes can be read and replaced. A rejection names a
    reason and the configured path, never a value. No record affects the outcome of another one.
    """

    def __init__(
        self,
        plan: Plan,
        mechanism: Mechanism,
        secret: bytes,
        *,
        record_format: RecordFormat | None = None,
    ) -> None:
        """``record_format``: the format of values, None for JSON.

        Raises ParameterError if plan and mechanism have different attributes, or if the secret is empty.
        """
        _require_equal("attributes", tuple(attribute.name for attribute in plan.attributes), mechanism.attributes)
        self._secret = Secret(secret)
        pseudonyms = Pseudonyms(self._secret)
        self._plan = plan
        self._mechanism = mechanism
        self._sizes = [len(attribute.concepts.taxonomy) for attribute in plan.attributes]
        self._codec = Codec(plan, pseudonyms, record_format)
        counted = replace(plan, fields=FieldPolicy(unlisted="keep"), unit=None)
        self._counting_codec = Codec(counted, pseudonyms, record_format)
        self._formatted_keys: FormattedKeys | None = None
        if record_format is not None and record_format.decodes_keys and plan.message.key == "pseudonymize":
            self._formatted_keys = FormattedKeys(record_format, pseudonyms)
        self._pseudonyms = pseudonyms
        self._counter = BlockCounter(self._secret, self._sizes)

    def set_styles(self, learned: Mapping[str, Style]) -> None:
        """Set the learned styles of a statistics version, by attribute; at first there are none.

        An attribute without a configured or learned style is written as its ontology's ids.
        """
        self._codec.set_styles(self._plan.styles(learned))

    @property
    def needs_group(self) -> bool:
        """Whether the mechanism masks groups of records of one partition. ``mask_all`` then raises an error."""
        return self._mechanism.needs_group

    @property
    def reads_headers(self) -> bool:
        """Whether the plan uses the records' headers. If not, they may be left out of the input."""
        return bool(self._plan.message.headers)

    def mask(
        self,
        topic: str,
        partition: int,
        records: Inputs | Sequence[InputRecord],
        *,
        statistics_version: int,
        hold: bool = False,
    ) -> Result:
        """Mask records of one partition, in the order of their offsets.

        Every record has one outcome, in the order of the input; at most ``BLOCK_RECORDS`` records share a block. A
        mechanism that masks groups takes all records as one group. If the group is too small, its records are rejected,
        or with ``hold`` GroupTooSmallError is raised. Raises StatisticsError if the mechanism has no statistics, and
        FormatUnavailableError if the records' format cannot decode or encode them now.
        """
        inputs = Inputs.of(records)
        if not (self.needs_group and len(inputs)):
            return self._masked(topic, {partition: inputs}, statistics_version)[partition]
        unmasked = self._unmasked(topic, {partition: inputs})
        group = self._mask_group(unmasked, f"topic {topic}, partition {partition}, ", hold)
        name = f"{inputs.offsets[0]}-{inputs.offsets[-1]}".encode()
        return self._results(topic, {partition: inputs}, statistics_version, group, (GROUP_HEADER, name))[partition]

    def mask_all(self, topic: str, records: Mapping[int, Inputs], *, statistics_version: int) -> dict[int, Result]:
        """Mask records of several partitions, none of them empty; same outcomes as ``mask``, but faster.

        The partitions share their distortions and numbers of values without a concept, which are in the first of their
        blocks. Raises ParameterError for a mechanism that masks groups, and like ``mask``.
        """
        if self.needs_group:
            raise ParameterError(f"{self._mechanism.name} masks groups, each of one partition")
        return self._masked(topic, records, statistics_version) if records else {}

    def count(self, values: Iterable[bytes | None]) -> SampleCounts:
        """Return the counts of records' values, for a first calibration; tombstones are not counted.

        Records are rejected for the same reasons as by ``mask``.
        """
        samples = [self._count(records) for records in _split(values)] or [self._count(Inputs.of([]))]
        return SampleCounts.joined(samples)

    def encode(self, values: Iterable[bytes | None]) -> Iterator[Batch]:
        """Yield the codes of the records that ``count`` counts, as batches of positions."""
        for records in _split(values):
            decoded = self._counting_codec.read(records)
            yield self._counter.with_slots(decoded.batch, decoded.keys)

    def _count(self, records: Inputs) -> SampleCounts:
        decoded = self._counting_codec.read(records)
        causes = Counter((reason, field) for _, reason, field in decoded.rejected.values())
        return SampleCounts(self._counter.count(decoded), dict(causes), tuple(decoded.styles))

    def _masked(self, topic: str, inputs: Mapping[int, Inputs], version: int) -> dict[int, Result]:
        """Mask records of partitions together, ``DOCUMENTS`` records at a time."""
        records = self._unmasked(topic, inputs)
        size = len(records.records)
        parts = [records.part(start, min(start + DOCUMENTS, size)) for start in range(0, max(size, 1), DOCUMENTS)]
        masked = MaskedRecords.joined([one for part in parts for one in self._mask_part(part)])
        return self._results(topic, inputs, version, masked)

    def _unmasked(self, topic: str, inputs: Mapping[int, Inputs]) -> _Unmasked:
        """Return the records of partitions, with masked keys, one partition after another."""
        records, rejected = Inputs.joined(list(inputs.values())), dict[int, Rejected]()
        if self._formatted_keys is None:
            keys = self._masked_keys(records.keys)
        else:
            keys, refused = self._formatted_keys.masked(records.keys)
            rejected = {k: Rejected(records.offsets[k], reason.value, KEY_FIELD) for k, reason in refused.items()}
        digests = None
        if self._plan.noise_key is None:
            positions = ((partition, np.array(each.offsets, np.int64)) for partition, each in inputs.items())
            digests = np.concatenate([PositionKeys(self._secret, topic, *position).digests for position in positions])
        return _Unmasked(replace(records, keys=keys), digests, rejected)

    def _masked_keys(self, keys: Sequence[bytes | None]) -> Sequence[bytes | None]:
        """Return the messages' masked keys. An id has the same pseudonym in a key and in a field. None stays None."""
        if self._plan.message.key == "keep":
            return keys
        if self._plan.message.key == "drop":
            return [None] * len(keys)
        masked = iter(self._pseudonyms.of_texts([key for key in keys if key is not None]))
        return [None if key is None else next(masked).encode() for key in keys]

    def _masked_headers(self, records: Inputs, stamp: list[Header]) -> list[list[Header]]:
        """Return the headers that the policy names, in their order, and the stamp."""
        kept = frozenset(self._plan.message.headers)
        if not kept:
            return [stamp] * len(records)
        return [[*(header for header in headers if header[0] in kept), *stamp] for headers in records.headers]

    def _mask_part(self, part: _Unmasked) -> list[MaskedRecords]:
        """Mask records. If that fails, mask each half of them, and reject a single record."""
        try:
            return [self._mask_decoded(part, self._codec.read(part.records, part.rejected))]
        except NOT_OF_RECORDS:
            raise
        except UnwritableRecordsError as error:
            return self._mask_part(part.without(error.rejected))
        except Exception as error:  # noqa: BLE001
            size = len(part.records)
            if size > 1:
                halves = (part.part(0, size // 2), part.part(size // 2, size))
                return [one for half in halves for one in self._mask_part(half)]
            _log.error("masking the record at offset %d failed (%s)", part.records.offsets[0], type(error).__name__)
            return self._mask_part(part.rejecting(Reason.INTERNAL_ERROR, range(size)))

    def _mask_decoded(self, part: _Unmasked, decoded: DecodedBatch) -> MaskedRecords:
        masked = self._mask_batch(decoded, part.digests)
        values: list[bytes | None] = [None] * len(part.records)
        written = self._codec.write(decoded, masked, part.records.offsets)
        for index, value in zip(decoded.indices.tolist(), written, strict=True):
            values[index] = value
        return MaskedRecords(
            decoded.batch,
            masked,
            decoded.indices,
            values,
            part.records.keys,
            decoded.rejected,
            decoded.unknown,
            decoded.lost,
            decoded.styles,
            decoded.emptied,
            decoded.keys,
        )

    def _mask_batch(self, decoded: DecodedBatch, digests: UInt64Matrix | None) -> MaskedBatch:
        batch = decoded.batch
        if not batch.size:
            return MaskedBatch(batch.columns, (Distortion(),) * len(batch.columns))
        keys: Keys
        if digests is None:
            keys = FieldKeys(self._secret, decoded.keys)
        else:
            keys = Keys(self._secret, digests[decoded.indices])
        masked = self._mechanism.mask_batch(batch, keys)
        for before, after, size in zip(batch.columns, masked.columns, self._sizes, strict=True):
            _check_codes(before, after, size)
        return masked

    def _mask_group(self, group: _Unmasked, topic: str, hold: bool) -> MaskedRecords:
        """Mask a group. Mask it again without the records that turn out to be unwritable; the others are still a group.

        If that fails, all its records are rejected. None of them is masked without the others.
        """
        while True:
            try:
                return MaskedRecords.joined([self._attempt_group(group)])
            except NOT_OF_RECORDS:
                raise
            except UnwritableRecordsError as error:
                group = group.without(error.rejected)
            except GroupTooSmallError:
                if hold:
                    raise
                group = self._rejected_group(group, Reason.GROUP_TOO_SMALL)
            except Exception as error:  # noqa: BLE001
                place = f"{topic}offsets {group.records.offsets[0]} to {group.records.offsets[-1]}"
                _log.error("masking the group at %s failed (%s)", place, type(error).__name__)
                group = self._rejected_group(group, Reason.INTERNAL_ERROR)

    def _attempt_group(self, group: _Unmasked) -> MaskedRecords:
        """Mask a group. Raises GroupTooSmallError if it has too few units, also for the mechanism itself."""
        decoded = self._codec.read(group.records, group.rejected)
        if not decoded.batch.size:
            return self._mask_decoded(group, decoded)
        if (lacking := self._mechanism.group_minimum - decoded.batch.unit_count) > 0:
            raise GroupTooSmallError(lacking)
        try:
            return self._mask_decoded(group, decoded)
        except ParameterError as error:
            raise GroupTooSmallError(1) from error

    def _rejected_group(self, group: _Unmasked, reason: Reason) -> _Unmasked:
        """Return a group with the rejections of all its records. Those that could be masked have one reason."""
        try:
            decoded = self._codec.read(group.records, group.rejected)
        except NOT_OF_RECORDS:
            raise
        except Exception:  # noqa: BLE001 - the caller has logged it
            return group.rejecting(reason, (k for k, value in enumerate(group.records.values) if value is not None))
        return group.without(decoded.rejected).rejecting(reason, decoded.indices.tolist())

    def _results(
        self, topic: str, inputs: Mapping[int, Inputs], version: int, masked: MaskedRecords, *more: Header
    ) -> dict[int, Result]:
        """Return the result of each partition. ``masked``: the records of all; ``more``: headers of all masks."""
        headers = [*stamp(version, self._mechanism.name, self._plan.configuration), *more]
        results, start = {}, 0
        for partition, records in inputs.items():
            part, start = masked.part(start, start + len(records)), start + len(records)
            results[partition] = self._result(topic, partition, version, records, part, headers)
        return results

    def _result(
        self, topic: str, partition: int, version: int, records: Inputs, masked: MaskedRecords, headers: list[Header]
    ) -> Result:
        lost = np.array(masked.lost)
        return Result(
            offsets=records.offsets,
            values=masked.values,
            keys=masked.keys,
            headers=self._masked_headers(records, headers),
            timestamps=records.timestamps,
            rejected=masked.rejected,
            blocks=self._counter.blocks(topic, partition, version, records, masked) if len(records) else [],
            emptied=masked.emptied,
            suppressed=self._by_policy("suppress", lost),
            generalized=self._by_policy("ancestor", np.array(masked.unknown) - lost),
        )

    def _by_policy(self, policy: str, numbers: Int64Array) -> dict[str, int]:
        """Return the numbers of the attributes with a policy for unknown codes. ``numbers``: of all attributes."""
        attributes = zip(self._plan.attributes, numbers.tolist(), strict=True)
        return {attribute.name: number for attribute, number in attributes if attribute.concepts.unknown == policy}


def _split(values: Iterable[bytes | None]) -> Iterator[Inputs]:
    """Yield values as records, at most ``BLOCK_RECORDS`` at a time."""
    rest = iter(values)
    while part := list(islice(rest, BLOCK_RECORDS)):
        yield Inputs.of([InputRecord(offset, value) for offset, value in enumerate(part)])


def _require_equal(what: str, plan: tuple[str, ...], mechanism: tuple[str, ...]) -> None:
    if plan != mechanism:
        raise ParameterError(f"the plan's {what} are {plan}, the mechanism's {mechanism}")


def _check_codes(before: Column, after: Column, size: int) -> None:
    """Raise ValueError unless exactly the present values have been replaced, by concepts of their taxonomy."""
    present = before.codes >= 0
    if not np.array_equal(present, after.codes >= 0) or (after.codes >= size).any():
        raise ValueError("the mechanism did not mask every value")
