"""The record masker: masks the records of a partition, with one outcome for each record, and counts them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.random import Secret
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline.blocks import (
    BlockCounter,
    CountedRecords,
    SampleCounts,
    limit_elements,
    merge_blocks,
    slice_counted,
)
from stream_masker.pipeline.codec.base import DecodedBatch, RecordCodec
from stream_masker.pipeline.codec.fallback import fastest_codec
from stream_masker.pipeline.codec.formatted import (
    FormattedCodec,
    FormattedKeys,
    FormatUnavailableError,
    RecordFormat,
    UnwritableRecordsError,
    read_except,
)
from stream_masker.pipeline.codec.numbers import check_numbers
from stream_masker.pipeline.codec.reference.codec import ReferenceCodec
from stream_masker.pipeline.codec.reference.json_decoder import unit_reader
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms, header_treatment, key_treatment, stamp
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Header, InputRecord, Inputs, Rejected, Result
from stream_masker.pipeline.rollups import SharedConcepts
from stream_masker.pipeline.runs import (
    GroupTooSmallError,
    NoiseKeys,
    Run,
    group_header,
    mask_group,
    pack_runs,
    reject_all,
    run_spans,
    split_values,
)
from stream_masker.pipeline.style import Style

JOINT_RECORDS: Final = 16_384
"""The maximum number of records of several partitions that are masked together. More gain nothing: their data leave
the processor's caches."""

NOT_OF_RECORDS: Final = (StatisticsError, FormatUnavailableError)
"""The errors whose cause lies outside of the records. No record is rejected for them."""

_log = logging.getLogger(__name__)


class RecordMasker:
    """Masks records by a plan and a mechanism. Its only state is what a statistics version brings,
    the styles and the sampled level: equal input gives equal output. Only the counts also depend on the weights of the
    noise keys that were counted before.

    It fails closed: a record is rejected unless all its attributes can be read and replaced. A rejection names a
    reason and the configured path, never a value. No record affects the outcome of another one.
    """

    def __init__(
        self,
        plan: Plan,
        mechanism: Mechanism,
        secret: bytes,
        *,
        compiled: bool = True,
        record_format: RecordFormat | None = None,
        count_secret: bytes | None = None,
    ) -> None:
        """compiled: if False, the reference codec decodes all records, which is slow and gives the same results;
        record_format: the format of values, None for JSON; count_secret: from which the hashes of noise keys derive, by
        default ``secret``. Maskers whose blocks are counted together share it.

        Raises ParameterError if plan and mechanism have different attributes, or if the secret is empty.
        """
        _require_equal("attributes", tuple(attribute.name for attribute in plan.attributes), mechanism.attributes)
        _require_equal(
            "numeric attributes", tuple(number.name for number in plan.numeric), mechanism.numeric_attributes
        )
        derived = Secret(secret)
        pseudonyms = Pseudonyms(derived)
        self._plan = plan
        self._mechanism = mechanism
        self._noise_keys = NoiseKeys(derived, by_field=plan.noise_key is not None)
        self._sizes = [len(attribute.concepts.taxonomy) for attribute in plan.attributes]
        self._format = record_format
        self._formatted_keys: FormattedKeys | None = None
        if record_format is not None and record_format.decodes_keys and plan.message.key == "pseudonymize":
            self._formatted_keys = FormattedKeys(record_format, pseudonyms.of_bytes)
        reference, counting = ReferenceCodec(plan, pseudonyms), ReferenceCodec(plan, pseudonyms, writes=False)
        self._reference = self._formatted(reference)
        records = "records" if record_format is None else record_format.records
        fastest = fastest_codec(reference, plan, pseudonyms, records) if compiled else reference
        self.is_compiled: Final = fastest is not reference
        """Whether the scanner decodes most records; False if the plan cannot be compiled or the self-check failed."""
        self._codec = self._formatted(fastest)
        self._counting_codec = self._formatted(fastest_codec(counting, plan, pseudonyms) if compiled else counting)
        self._unit = None if plan.unit is None else unit_reader(plan.unit, plan.limits)
        self._treat_keys = key_treatment(plan.message, pseudonyms)
        self._treat_headers = header_treatment(plan.message)
        self._counter = BlockCounter(Secret(count_secret) if count_secret else derived, self._sizes)
        self.set_styles({})
        self.set_shared({})

    def _formatted(self, codec: RecordCodec[Any]) -> RecordCodec[Any]:
        return codec if self._format is None else FormattedCodec(codec, self._format, self._formatted_keys)

    def set_styles(self, learned: Mapping[str, Style]) -> None:
        """Set the learned styles of a statistics version, by attribute; at first there are none.

        An attribute without a configured or learned style is written as its ontology's ids.
        """
        self._codec.set_styles(self._plan.styles(learned))

    def set_shared(self, shared: Mapping[str, SharedConcepts]) -> None:
        """Set the concepts of a statistics version that enough records share, by the path of their field.

        At first there are none, and the values of these fields are dropped.
        """
        self._codec.set_shared(
            {path: rollup.ancestors(shared.get(path)) for path, rollup in self._plan.fields.rolled.items()}
        )

    def set_identities(self, identities: Mapping[str, str]) -> None:
        """Set what distinguishes each topic or file from an earlier one of the same name; at first there is nothing.

        Noise by position and sampling depend on it: records at the same positions of another topic have other noise,
        and other records of it are sampled.
        """
        self._noise_keys.set_identities(identities)

    @property
    def needs_group(self) -> bool:
        """Whether the mechanism masks groups of records of one partition. ``mask_all`` then raises an error."""
        return self._mechanism.needs_group

    @property
    def reads_headers(self) -> bool:
        """Whether the plan uses the records' headers. If not, they may be left out of the input."""
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
        """Mask records of one partition, in the order of their offsets.

        Every record has one outcome, in the order of the input; at most ``BLOCK_RECORDS`` records share a block. A
        mechanism that masks groups takes all records as one group. If the group is too small, its records are rejected,
        or with ``hold`` GroupTooSmallError is raised. Raises StatisticsError if the mechanism has no statistics, and
        FormatUnavailableError if the records' format cannot decode or encode them now.
        """
        run = Run(topic, partition, Inputs.of(records), statistics_version, self._stamp(statistics_version))
        if self._mechanism.needs_group and len(run.records):
            return self._mask_group(replace(run, stamp=[*run.stamp, group_header(run.records)]), hold)
        return Result.joined([self._mask_run(part) for part in run.split()])

    def mask_all(self, topic: str, records: Mapping[int, Inputs], *, statistics_version: int) -> dict[int, Result]:
        """Mask records of several partitions, none of them empty; same outcomes as ``mask``, but faster.

        Partitions that are masked together share their distortions and numbers of values without a concept, which are
        in the first of their blocks. Raises ParameterError for a mechanism that masks groups, and like ``mask``.
        """
        if self._mechanism.needs_group:
            raise ParameterError(f"{self._mechanism.name} masks groups, each of one partition")
        headers = self._stamp(statistics_version)
        runs = [run for k, i in records.items() for run in Run(topic, k, i, statistics_version, headers).split()]
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
        """Return the counts of records' values, for a first calibration; tombstones are not counted.

        Records are rejected for the same reasons as by ``mask``, except for their alpha.
        """
        samples = [self._count(records) for records in split_values(values)] or [self._count(Inputs.of([]))]
        return SampleCounts.joined(samples)

    def encode(self, values: Iterable[bytes | None]) -> Iterator[Batch]:
        """Yield the codes of the records that ``count`` counts, as batches of positions."""
        for records in split_values(values):
            yield self._counter.with_slots(self._counting_codec.read(records))

    def _count(self, records: Inputs) -> SampleCounts:
        decoded = self._counting_codec.read(records)
        causes = Counter((reason, field) for _, reason, field in decoded.rejected.values())
        return SampleCounts(self._counter.count(decoded), dict(causes), tuple(decoded.styles))

    def _mask_runs(self, runs: Sequence[Run]) -> Sequence[Result]:
        """Mask runs together. If that fails, mask them one by one."""
        if len(runs) > 1:
            try:
                records = Inputs.joined([run.records for run in runs])
                return self._finish_all(runs, records, self._codec, self._codec.read(records))
            except NOT_OF_RECORDS:
                raise
            except UnwritableRecordsError:
                _log.debug("some masked records do not fit their schema; masking partitions one by one")
            except Exception as error:  # noqa: BLE001
                _log.warning("masking partitions together failed (%s); masking one by one", type(error).__name__)
        return [self._mask_run(run) for run in runs]

    def _mask_run(self, run: Run) -> Result:
        """Mask a run. Mask it again without the records that turn out to be unwritable.

        If that fails, mask record by record.
        """
        try:
            return self._finish(run, self._codec, read_except(self._codec, run.records, run.unwritable))
        except NOT_OF_RECORDS:
            raise
        except UnwritableRecordsError as error:
            return self._mask_run(run.without(error.rejected))
        except Exception as error:  # noqa: BLE001
            _log.warning("masking a batch failed (%s); masking its records one by one", type(error).__name__)
            return self._one_by_one(run)

    def _mask_group(self, run: Run, hold: bool) -> Result:
        """Mask a group. Mask it again without the records that turn out to be unwritable; the others are still a group.

        If that fails, all its records are rejected. None of them is masked without the others.
        """
        try:
            decoded = read_except(self._codec, run.records, run.unwritable)
            return self._attempt_group(run, self._with_units(run, decoded), hold)
        except (*NOT_OF_RECORDS, GroupTooSmallError):
            raise
        except UnwritableRecordsError as error:
            return self._mask_group(run.without(error.rejected), hold)
        except Exception as error:  # noqa: BLE001
            place = f"topic {run.topic}, partition {run.partition}, offsets {run.records.offsets[0]} to "
            _log.error("masking the group at %s%d failed (%s)", place, run.records.offsets[-1], type(error).__name__)
            decoded = read_except(self._reference, run.records, run.unwritable)
            return self._finish(run, self._reference, reject_all(decoded, run.records, Reason.INTERNAL_ERROR))

    def _attempt_group(self, run: Run, decoded: DecodedBatch[Any], hold: bool) -> Result:
        if not len(decoded.indices):
            return self._finish(run, self._codec, decoded)
        try:
            minimum = self._mechanism.group_minimum
            return mask_group(decoded.batch, minimum, lambda: self._finish(run, self._codec, decoded))
        except GroupTooSmallError:
            if hold:
                raise
            return self._finish(run, self._codec, reject_all(decoded, run.records, Reason.GROUP_TOO_SMALL))

    def _with_units(self, run: Run, decoded: DecodedBatch[Any]) -> DecodedBatch[Any]:
        """Return the decoded records with the unit that each is of, numbered in the order of their texts."""
        if self._unit is None:
            return decoded
        units = [self._unit(self._document(run.records.values[index] or b"")) for index in decoded.indices.tolist()]
        numbers = {unit: number for number, unit in enumerate(sorted(set(units)))}
        column = np.array([numbers[unit] for unit in units], np.int64)
        return replace(decoded, batch=replace(decoded.batch, units=column))

    def _document(self, value: bytes) -> bytes:
        """Return the JSON of a record that was decoded before."""
        return value if self._format is None else self._format.decode(value)[0]

    def _one_by_one(self, run: Run) -> Result:
        singly = (run.records.part(index, index + 1) for index in range(len(run.records)))
        result = Result.joined([self._mask_alone(replace(run, records=record, unwritable={})) for record in singly])
        return replace(result, blocks=[merge_blocks(result.blocks)])

    def _mask_alone(self, run: Run) -> Result:
        """Mask a single record. If that fails, reject it."""
        try:
            return self._finish(run, self._reference, read_except(self._reference, run.records, run.unwritable))
        except NOT_OF_RECORDS:
            raise
        except UnwritableRecordsError as error:
            return self._mask_alone(run.without(error.rejected))
        except Exception as error:  # noqa: BLE001
            offset = run.records.offsets[0]
            place = f"topic {run.topic}, partition {run.partition}, offset {offset}"
            _log.error("masking the record at %s failed (%s)", place, type(error).__name__)
            rejected = {0: Rejected(offset, Reason.INTERNAL_ERROR.value)}
            return self._finish(run, self._reference, replace(self._reference.read(Inputs.of([])), rejected=rejected))

    def _finish(self, run: Run, codec: RecordCodec[Any], decoded: DecodedBatch[Any]) -> Result:
        return self._finish_all([run], run.records, codec, decoded)[0]

    def _finish_all(
        self, runs: Sequence[Run], records: Inputs, codec: RecordCodec[Any], decoded: DecodedBatch[Any]
    ) -> list[Result]:
        """Mask and render the records of runs that were decoded together. Return the result of each run."""
        masked = self._mask_batch(runs, decoded)
        values = _values(len(records), codec, decoded, masked)
        keys = self._masked_keys(records.keys, decoded.rejected)
        counted = CountedRecords(
            replace(decoded.batch, columns=limit_elements(decoded.batch.columns)),
            replace(masked, columns=limit_elements(masked.columns)),
            decoded.indices,
            decoded.rejected,
            decoded.unknown,
            decoded.lost,
            decoded.styles,
            noise_keys=None if self._plan.noise_key is None else decoded.keys,
        )
        first, *others = [
            self._result(run, values[start:end], keys[start:end], slice_counted(counted, start, end))
            for run, (start, end) in run_spans(runs)
        ]
        return [replace(first, emptied=decoded.emptied, suppressed=self._suppressed(decoded)), *others]

    def _suppressed(self, decoded: DecodedBatch[Any]) -> dict[str, int]:
        """Return the number of unknown codes that are removed from decoded records, by attribute that suppresses."""
        if not len(decoded.indices):
            return {}
        lost = zip(self._plan.attributes, decoded.lost, strict=True)
        return {attribute.name: number for attribute, number in lost if attribute.concepts.unknown == "suppress"}

    def _masked_keys(self, keys: Sequence[bytes | None], rejected: Mapping[int, Rejected]) -> Sequence[bytes | None]:
        formatted = self._formatted_keys
        return self._treat_keys(keys) if formatted is None else formatted.all_masked(keys, rejected)

    def _result(
        self, run: Run, values: list[bytes | None], keys: Sequence[bytes | None], counted: CountedRecords
    ) -> Result:
        blocks = self._counter.blocks(
            run.records,
            counted,
            topic=run.topic,
            partition=run.partition,
            statistics_version=run.statistics_version,
        )
        return Result(
            offsets=run.records.offsets,
            values=values,
            keys=keys,
            headers=self._treat_headers(run.records, run.stamp),
            timestamps=run.records.timestamps,
            rejected=counted.rejected,
            blocks=blocks,
        )

    def _mask_batch(self, runs: Sequence[Run], decoded: DecodedBatch[Any]) -> MaskedBatch:
        batch = decoded.batch
        if not batch.size:
            return MaskedBatch(batch.columns, (Distortion(),) * len(batch.columns), batch.numeric)
        masked = self._mechanism.mask_batch(batch, self._noise_keys.of(runs, decoded))
        for before, after, size in zip(batch.columns, masked.columns, self._sizes, strict=True):
            _check_codes(before, after, size)
        check_numbers(batch.numeric, masked.numeric, [number.kind for number in self._plan.numeric])
        return masked


def _values(size: int, codec: RecordCodec[Any], decoded: DecodedBatch[Any], masked: MaskedBatch) -> list[bytes | None]:
    """Return the rendered values of ``size`` records; None for tombstones and rejected records."""
    values: list[bytes | None] = [None] * size
    if len(decoded.indices):
        for index, value in zip(decoded.indices.tolist(), codec.render(decoded, masked), strict=True):
            values[index] = value
    return values


def _require_equal(what: str, plan: tuple[str, ...], mechanism: tuple[str, ...]) -> None:
    if plan != mechanism:
        raise ParameterError(f"the plan's {what} are {plan}, the mechanism's {mechanism}")


def _check_codes(before: Column, after: Column, size: int) -> None:
    """Raise ValueError unless exactly the present values have been replaced, by concepts of their taxonomy."""
    present = before.codes >= 0
    if not np.array_equal(present, after.codes >= 0) or (after.codes >= size).any():
        raise ValueError("the mechanism did not mask every value")
