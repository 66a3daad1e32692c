"""The way in: records decoded, their codes read, and those that cannot be masked set apart."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.pipeline.codec.attributes import AttributeCodec
from stream_masker.pipeline.codec.controls import noise_key, own_alpha
from stream_masker.pipeline.codec.decoded import DecodedBatch, alpha_column
from stream_masker.pipeline.codec.numbers import NumericCodec, as_matrix, write_numbers
from stream_masker.pipeline.codec.reference.columns import ExtractedColumn, placeholder_texts
from stream_masker.pipeline.codec.reference.extraction import AttributeExtractor, extractor_for
from stream_masker.pipeline.codec.reference.json import decoder
from stream_masker.pipeline.codec.reference.template import fill_template, split_template
from stream_masker.pipeline.fields import FieldTreatment
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import Inputs, Rejected

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class DecodeAccumulator:
    """What came of n records, in their order.

    Of those that can be masked: ``indices`` among the n; ``pieces``, their JSON cut at its gaps; ``gaps``, what each
    of these is for; one ledger an attribute, one list of ``numbers`` a numeric one; noise ``keys`` and own ``alphas``
    (empty when the plan has none).
    ``rejected``: by index. Tombstones are in neither.
    """

    ledgers: list[AttributeExtractor]
    gaps: list[int]
    numbers: list[list[float]] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    pieces: list[list[bytes]] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    rejected: dict[int, Rejected] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.indices)

    def readings(self) -> list[ExtractedColumn]:
        """Each attribute's codes."""
        return [ledger.gather() for ledger in self.ledgers]

    def batch(self, readings: Sequence[ExtractedColumn]) -> Batch:
        """The records as a batch."""
        columns = tuple(reading.column for reading in readings)
        return Batch(self.size, columns, alpha_column(self.alphas) if self.alphas else None, as_matrix(self.numbers))

    def unknown(self, readings: Sequence[ExtractedColumn]) -> list[int]:
        """Each attribute's values that found no concept, those of rejected records included."""
        return [reading.unknown + n for reading, n in zip(readings, self._blamed(), strict=True)]

    def lost(self, readings: Sequence[ExtractedColumn]) -> list[int]:
        """Each attribute's values that found no concept and are not in the batch."""
        return [reading.lost + n for reading, n in zip(readings, self._blamed(), strict=True)]

    def _blamed(self) -> list[int]:
        """For each attribute the records that were rejected for an unknown code of it."""
        fields = [one.field for one in self.rejected.values() if one.reason == Reason.UNKNOWN_CODE]
        return [fields.count(ledger.attribute.plan.path.text) for ledger in self.ledgers]

    def taken(self, attributes: Sequence[AttributeCodec], numeric: Sequence[NumericCodec]) -> DecodedBatch:
        """What is left to do with the records."""
        readings = self.readings()

        def write(masked: MaskedBatch) -> list[bytes]:
            texts = placeholder_texts(self.gaps, attributes, readings, masked)
            write_numbers(texts, self.gaps, numeric, masked.numeric)
            return [fill_template(pieces, texts) for pieces in self.pieces]

        return DecodedBatch(
            indices=np.array(self.indices, dtype=np.int64),
            batch=self.batch(readings),
            keys=self.keys,
            rejected=self.rejected,
            unknown=self.unknown(readings),
            lost=self.lost(readings),
            write=write,
        )

    def cut_back(self, gaps: int) -> None:
        """Forgets what was read of a record that is not among the indices."""
        del self.gaps[gaps:]
        del self.keys[self.size :]
        del self.alphas[self.size :]
        for ledger in self.ledgers:
            ledger.cut_back(self.size)
        for column in self.numbers:
            del column[self.size :]


class ReferenceCodec:
    """Takes records in as a plan says.

    ``treat``: from a record with gaps to what is emitted of it; ``controls``: whether the records' noise keys and own
    alphas are read as well.
    """

    def __init__(self, plan: Plan, *, treat: FieldTreatment, controls: bool = True) -> None:
        total, nominal = len(plan.attributes) + len(plan.numeric), len(plan.attributes)
        self.attributes: Final = tuple(
            AttributeCodec(part, number, total) for number, part in enumerate(plan.attributes)
        )
        self.numeric: Final = tuple(NumericCodec(p, n, total) for n, p in enumerate(plan.numeric, start=nominal))
        self._decode = decoder(plan.limits)
        self._treat = treat
        self._key = noise_key(plan.noise_key) if controls and plan.noise_key is not None else None
        self._alpha = own_alpha(plan.alpha) if controls and plan.alpha is not None else None

    def take(self, records: Inputs) -> DecodedBatch:
        """Decodes and reads records. Whatever goes wrong with one of them rejects that one only."""
        taken = self._open()
        gaps, read = taken.gaps, self._one(taken)
        for index, value in enumerate(records.values):
            if value is None:
                continue
            mark = len(gaps)
            try:
                pieces = read(records, index, value)
            except RecordRejectedError as unfit:
                taken.rejected[index] = Rejected(records.offsets[index], unfit.reason.value, unfit.field)
                taken.cut_back(mark)
            except Exception as error:  # noqa: BLE001
                _log.error("reading the record at offset %d failed (%s)", records.offsets[index], type(error).__name__)
                taken.rejected[index] = Rejected(records.offsets[index], Reason.INTERNAL_ERROR.value)
                taken.cut_back(mark)
            else:
                taken.indices.append(index)
                taken.pieces.append(pieces)
        return taken.taken(self.attributes, self.numeric)

    def refuse(self, rejected: Rejected) -> DecodedBatch:
        """What comes of one record that is rejected unread."""
        taken = self._open()
        taken.rejected[0] = rejected
        return taken.taken(self.attributes, self.numeric)

    def _open(self) -> DecodeAccumulator:
        gaps: list[int] = []
        return DecodeAccumulator(
            [extractor_for(attribute, gaps) for attribute in self.attributes], gaps, [[] for _ in self.numeric]
        )

    def _one(self, taken: DecodeAccumulator) -> Callable[[Inputs, int, bytes], list[bytes]]:
        """A function that decodes and reads one record, and cuts at its gaps what is emitted of it."""
        decode, treat = self._decode, self._treat
        readers = [ledger.reader() for ledger in taken.ledgers]
        readers += [n.reader(column, taken.gaps) for n, column in zip(self.numeric, taken.numbers, strict=True)]
        controls = [*self._controls(taken)]

        def read(records: Inputs, index: int, value: bytes) -> list[bytes]:
            document = decode(value)
            for control in controls:
                control(document, records, index)
            for reader in readers:
                reader(document)
            return split_template(treat(document))

        return read

    def _controls(self, taken: DecodeAccumulator) -> Iterator[Callable[[dict[str, Any], Inputs, int], None]]:
        key, alpha = self._key, self._alpha
        if key is not None:
            yield lambda document, records, index: taken.keys.append(key(document))
        if alpha is not None:
            yield lambda document, records, index: taken.alphas.append(alpha(document, records.record(index)))
