"""The reference codec: every record is decoded to JSON objects, one record at a time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.pipeline.codec.attributes import (
    LABEL_PLACEHOLDER,
    PLACEHOLDER_SHIFT,
    AttributeCodec,
    ExtractedColumn,
    masked_positions,
)
from stream_masker.pipeline.codec.base import DecodedBatch, RecordCodec
from stream_masker.pipeline.codec.numbers import NULL_JSON, alpha_column
from stream_masker.pipeline.codec.reference.extraction import (
    AttributeExtractor,
    NumericCodec,
    as_matrix,
    extractor_for,
    fill_numbers,
    fill_template,
    places_of,
    split_template,
)
from stream_masker.pipeline.codec.reference.json_decoder import alpha_reader, decoder, kind_reader, read_noise_key
from stream_masker.pipeline.codec.reference.matching import matcher
from stream_masker.pipeline.codec.roles import (
    ALPHA_ROLE,
    COUNTED_ROLE,
    NOISE_KEY_ROLE,
    NUMBER_ROLE,
    role_trie,
    roles_of,
)
from stream_masker.pipeline.fhir.messages import PATIENT_KEY, FhirMessage
from stream_masker.pipeline.fields import field_treatment
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import Inputs, Rejected
from stream_masker.pipeline.style import Style
from stream_masker.pipeline.transforms import TransformContext


def placeholder_texts(
    placeholders: Sequence[int],
    attributes: Sequence[AttributeCodec],
    columns: Sequence[ExtractedColumn],
    masked: MaskedBatch,
) -> list[bytes]:
    """Return the text of each placeholder, as JSON; null for those of numbers."""
    texts = [NULL_JSON] * len(placeholders)
    owners, kinds = np.divmod(np.array(placeholders, dtype=np.int64), 1 << PLACEHOLDER_SHIFT)
    values, owners = np.divmod(owners, attributes[0].total)
    for attribute, extracted, column in zip(attributes, columns, masked.columns, strict=True):
        indices = np.flatnonzero(owners == attribute.number)
        positions = masked_positions(extracted, column)[values[indices]]
        is_label = kinds[indices] == LABEL_PLACEHOLDER
        _fill(texts, attribute.labels, indices[is_label], positions[is_label])
        _fill(texts, attribute.codes, indices[~is_label], positions[~is_label])
    return texts


def _fill(texts: list[bytes], written: Mapping[int, bytes], placeholders: Int64Array, positions: Int64Array) -> None:
    for placeholder, position in zip(placeholders.tolist(), positions.tolist(), strict=True):
        texts[placeholder] = written[position]


_log = logging.getLogger(__name__)
_NONE_UNDECIDED: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ReferenceTemplates:
    """The output records of a batch before masking. pieces: each record's JSON, split at its placeholders;
    placeholders: what each of them stands for (``codec.attributes``); columns: each attribute's values."""

    pieces: Sequence[list[bytes]]
    placeholders: Sequence[int]
    columns: Sequence[ExtractedColumn]


@dataclass(slots=True)
class DecodeAccumulator:
    """The decoded records of a batch, collected one by one.

    One entry for each record that can be masked: ``indices``; ``pieces``, its JSON split at the placeholders; the
    ``extractors``' values and the ``numbers`` of each numeric attribute; ``keys``, ``alphas`` and ``contexts``, the
    kinds of ``context``, empty if the plan has none. ``placeholders``: what each stands for; ``rejected``: the
    rejections, by index.
    """

    extractors: list[AttributeExtractor]
    placeholders: list[int]
    numbers: list[list[float]]
    plan: Plan
    indices: list[int] = field(default_factory=list)
    pieces: list[list[bytes]] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    kinds: list[list[int]] = field(default_factory=list)
    rejected: dict[int, Rejected] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.indices)

    def decoded(self) -> DecodedBatch[ReferenceTemplates]:
        """Return the collected records as a decoded batch."""
        columns = [extractor.column() for extractor in self.extractors]
        rejected = self._rejected_for_unknown_codes()
        return DecodedBatch(
            indices=np.array(self.indices, dtype=np.int64),
            batch=self._batch(columns),
            keys=self.keys,
            rejected=self.rejected,
            undecided=_NONE_UNDECIDED,
            unknown=[column.unknown + n for column, n in zip(columns, rejected, strict=True)],
            lost=[column.lost + n for column, n in zip(columns, rejected, strict=True)],
            styles=[column.styles for column in columns],
            templates=ReferenceTemplates(self.pieces, self.placeholders, columns),
        )

    def _batch(self, columns: Sequence[ExtractedColumn]) -> Batch:
        alphas = alpha_column(self.alphas) if self.alphas else None
        kinds = np.array(self.kinds, np.int64).reshape(self.size, len(self.plan.counted))
        return Batch(
            self.size,
            tuple(extracted.column for extracted in columns),
            alphas,
            as_matrix(self.numbers),
            context=self.plan.contexts_of(kinds),
            rolled=self.plan.rolled_of(kinds),
        )

    def _rejected_for_unknown_codes(self) -> list[int]:
        """Return the number of records that were rejected because of an unknown code, by attribute."""
        fields = Counter(field for _, reason, field in self.rejected.values() if reason == Reason.UNKNOWN_CODE)
        return [
            sum(fields[text] for text in {place.path.text for place in extractor.attribute.plan.places})
            for extractor in self.extractors
        ]

    def reject(self, index: int, rejected: Rejected, placeholders: int) -> None:
        """Reject a record and remove its data; only the first ``placeholders`` placeholders remain."""
        self.rejected[index] = rejected
        del self.placeholders[placeholders:]
        del self.keys[self.size :]
        del self.alphas[self.size :]
        del self.kinds[self.size :]
        for extractor in self.extractors:
            extractor.truncate(self.size)
        for column in self.numbers:
            del column[self.size :]


class ReferenceCodec(RecordCodec[ReferenceTemplates]):
    """The literal implementation: it decides about every record, and the scanner must agree with it.

    writes: whether records are rendered after masking. If not, they are only counted, and neither the field policy
    nor the alphas of records apply.
    """

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms, *, writes: bool = True) -> None:
        total, nominal = len(plan.attributes) + len(plan.numeric), len(plan.attributes)
        self.writes: Final = writes
        self.attributes: Final = tuple(AttributeCodec(p, number, total) for number, p in enumerate(plan.attributes))
        self._decode = decoder(plan.limits)
        self._transforms = TransformContext(pseudonyms.of_bytes, pseudonyms.offset_hash)
        self._treat = field_treatment(plan, pseudonyms, self._transforms) if writes else _nothing
        roles = roles_of(plan, alpha=writes)
        self._match = matcher(role_trie(roles))
        self._paths = [places_of(attribute, roles) for attribute in self.attributes]
        self._fhir = plan.fhir
        numeric = [number for number, role in enumerate(roles) if role.kind == NUMBER_ROLE]
        self._numeric = tuple(
            NumericCodec(p, number, total, role)
            for number, (p, role) in enumerate(zip(plan.numeric, numeric, strict=True), start=nominal)
        )
        self._noise_key = next(((n, role.path) for n, role in enumerate(roles) if role.kind == NOISE_KEY_ROLE), None)
        alpha = next((number for number, role in enumerate(roles) if role.kind == ALPHA_ROLE), None)
        self._alpha = alpha_reader(plan.alpha, alpha) if writes and plan.alpha is not None else None
        counted = [number for number, role in enumerate(roles) if role.kind == COUNTED_ROLE]
        self._kinds = kind_reader(plan.counted, counted) if counted else None
        self._plan = plan

    def set_styles(self, styles: Sequence[Style]) -> None:
        for attribute, style in zip(self.attributes, styles, strict=True):
            attribute.set_style(style)

    def set_shared(self, shared: Mapping[str, Int32Array]) -> None:
        self._transforms.shared = shared

    def read(self, records: Inputs) -> DecodedBatch[ReferenceTemplates]:
        accumulator = self._accumulator()
        self._transforms.emptied.clear()
        for index, value in enumerate(records.values):
            if value is None:
                continue
            placeholders = len(accumulator.placeholders)
            try:
                pieces = self._read(accumulator, records, index, value)
            except RecordRejectedError as error:
                rejected = Rejected(records.offsets[index], error.reason.value, error.field)
                accumulator.reject(index, rejected, placeholders)
            except Exception as error:  # noqa: BLE001
                _log.error("reading the record at offset %d failed (%s)", records.offsets[index], type(error).__name__)
                rejected = Rejected(records.offsets[index], Reason.INTERNAL_ERROR.value)
                accumulator.reject(index, rejected, placeholders)
            else:
                accumulator.indices.append(index)
                accumulator.pieces.append(pieces)
        return replace(accumulator.decoded(), emptied=dict(self._transforms.emptied))

    def render(self, decoded: DecodedBatch[ReferenceTemplates], masked: MaskedBatch) -> list[bytes]:
        templates = decoded.templates
        texts = placeholder_texts(templates.placeholders, self.attributes, templates.columns, masked)
        fill_numbers(texts, templates.placeholders, self._numeric, masked.numeric)
        return [fill_template(pieces, texts) for pieces in templates.pieces]

    def _accumulator(self) -> DecodeAccumulator:
        placeholders: list[int] = []
        extractors = [
            extractor_for(attribute, paths, placeholders)
            for attribute, paths in zip(self.attributes, self._paths, strict=True)
        ]
        return DecodeAccumulator(extractors, placeholders, [[] for _ in self._numeric], self._plan)

    def _read(self, accumulator: DecodeAccumulator, records: Inputs, index: int, value: bytes) -> list[bytes]:
        """Decode a record, extract its values, and split the record to write at its placeholders."""
        decoded = self._decode(value)
        message = None if self._fhir is None else FhirMessage.of(decoded, self._fhir)
        document = decoded if message is None else message.bundle
        matches = self._match(document)
        if self._noise_key is not None:
            if message is not None and message.patients > 1 and self._noise_key[1].text == PATIENT_KEY:
                raise RecordRejectedError(Reason.SEVERAL_PATIENTS)
            accumulator.keys.append(read_noise_key(matches, *self._noise_key))
        if self._alpha is not None:
            accumulator.alphas.append(self._alpha(matches, records.record(index)))
        if self._kinds is not None:
            accumulator.kinds.append(self._kinds(matches))
        for extractor in accumulator.extractors:
            extractor.extract(matches)
        for numeric, column in zip(self._numeric, accumulator.numbers, strict=True):
            numeric.extract(matches, column, accumulator.placeholders)
        treated = self._treat(document)
        return split_template(treated if message is None or not self.writes else message.written(treated))


def _nothing(_: dict[str, Any]) -> dict[str, Any]:
    return {}
