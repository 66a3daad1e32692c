"""The record codec, one for every format: it reads the codes of records, and writes the records with masked codes.

A form (``formats``) opens a record as a document of dicts and lists. A walk (``walk``) treats the documents of a batch
in place, and finds the values of attributes (``values``). Once the batch is masked, the masked codes are written into
their places, and the form writes the documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.fhir import fhir_form
from stream_masker.pipeline.formats import Form, RecordFormat, UnwritableRecordsError, Write, record_form
from stream_masker.pipeline.hl7v2 import Hl7Format
from stream_masker.pipeline.paths import Document, Path, first_values
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import Inputs, Rejected
from stream_masker.pipeline.style import Style, StyleCounts
from stream_masker.pipeline.transforms import Pseudonyms, key_text
from stream_masker.pipeline.values import Attribute, ReadCodes
from stream_masker.pipeline.walk import Reading, Tree

DOCUMENTS: Final = 500
"""The number of records that are read, masked and written together: their documents stay in the processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch:
    """n records, of which k can be masked. Tombstones are neither decoded nor rejected.

    indices: (k,) int64, ascending: the records that can be masked; batch: their codes; keys: their noise keys, empty if
    the plan has none; rejected: the rejections, by index; unknown: for each attribute the number of values without a
    concept of their own; lost: the number of those that are not in ``batch``; styles: for each attribute the styles of
    the texts in ``batch``; emptied: the number of values that a transform cannot treat, by configured path; documents:
    the k documents, each with what writes it; codes: of each attribute, with the places to write them to.
    """

    indices: Int64Array
    batch: Batch
    keys: Sequence[bytes]
    rejected: Mapping[int, Rejected]
    unknown: Sequence[int]
    lost: Sequence[int]
    styles: Sequence[StyleCounts]
    emptied: Mapping[str, int]
    documents: Sequence[tuple[Document, Write]]
    codes: Sequence[ReadCodes]


class Codec:
    """Reads and writes the records of a plan."""

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms, record_format: RecordFormat | None = None) -> None:
        """``record_format``: that of the records, None for JSON."""
        self._plan = plan
        self._format = record_format
        self._open = form_of(plan, record_format)
        self._tree = Tree(plan, pseudonyms)
        self._attributes = [Attribute(attribute, self._tree) for attribute in plan.attributes]
        self._transform_keys = {rule.key for rule in plan.fields.transformed.values() if rule.key is not None}

    def set_styles(self, styles: Sequence[Style]) -> None:
        """Set the styles in which the attributes' codes are written from now on; at first those of the ontologies."""
        for attribute, style in zip(self._attributes, styles, strict=True):
            attribute.set_style(style)

    def read(self, records: Inputs, known: Mapping[int, Rejected] | None = None) -> DecodedBatch:
        """Read records. An error in a record rejects that record only.

        known: the rejections of records that must not be read, by index. Raises FormatUnavailableError.
        """
        rejected = dict(known or {})
        if self._format is not None:
            self._format.prepare(value for value in records.values if value is not None)
        indices, opened = self._opened(records, rejected)
        documents = [document for document, _ in opened]
        reading = Reading({path: _keys(documents, path) for path in self._transform_keys})
        keys = self._noise_keys(documents, reading)
        units = None if self._plan.unit is None else _keys(documents, self._plan.unit)
        kinds = [list(map(each.kind_of, first_values(documents, each.path))) for each in self._plan.context]
        self._tree.walk(documents, reading)
        codes = [attribute.read(reading, len(documents)) for attribute in self._attributes]
        good = np.ones(len(documents), np.bool_)
        good[list(reading.refused)] = False
        for number, (reason, path) in reading.refused.items():
            rejected[indices[number]] = Rejected(records.offsets[indices[number]], reason.value, path)
        batch = Batch(
            int(np.count_nonzero(good)),
            tuple(read.column(good) for read in codes),
            units=None if units is None else np.unique(np.array(units, object)[good], return_inverse=True)[1],
            context=self._plan.contexts_of(np.array(kinds, np.int64).reshape(len(kinds), len(documents)).T[good]),
        )
        rejected_codes = self._rejected_for_unknown_codes(rejected)
        unknown = [read.unknown(good) for read in codes]
        return DecodedBatch(
            indices=np.array(indices, np.int64)[good],
            batch=batch,
            keys=list(compress(keys, good)),
            rejected=dict(sorted(rejected.items())),
            unknown=[number + more for (number, _), more in zip(unknown, rejected_codes, strict=True)],
            lost=[lost + more for (_, lost), more in zip(unknown, rejected_codes, strict=True)],
            styles=[read.styles() for read in codes],
            emptied=reading.emptied,
            documents=list(compress(opened, good)),
            codes=codes,
        )

    def _opened(self, records: Inputs, rejected: dict[int, Rejected]) -> tuple[list[int], list[tuple[Document, Write]]]:
        """Return the indices of records and their documents, each with what writes it. Others are rejected."""
        indices, opened = [], []
        for index, value in enumerate(records.values):
            if value is None or index in rejected:
                continue
            try:
                opened.append(self._open(value))
                indices.append(index)
            except RecordRejectedError as error:
                rejected[index] = Rejected(records.offsets[index], error.reason.value, error.field)
        return indices, opened

    def _noise_keys(self, documents: Sequence[Document], reading: Reading) -> list[bytes]:
        if self._plan.noise_key is None:
            return []
        keys = _keys(documents, self._plan.noise_key)
        if not all(keys):
            without = (record for record, key in enumerate(keys) if not key)
            reading.refuse(without, Reason.MISSING_NOISE_KEY, self._plan.noise_key)
        return keys

    def _rejected_for_unknown_codes(self, rejected: Mapping[int, Rejected]) -> list[int]:
        """Return the number of records that are rejected because of an unknown code, by attribute."""
        fields = Counter(field for _, reason, field in rejected.values() if reason == Reason.UNKNOWN_CODE)
        return [sum(fields[place.path.text] for place in attribute.places) for attribute in self._plan.attributes]

    def write(self, decoded: DecodedBatch, masked: MaskedBatch, offsets: Sequence[int]) -> list[bytes]:
        """Return the k masked records. ``offsets``: those of all n records.

        Raises UnwritableRecordsError if some of them do not fit their schema.
        """
        for codes, column in zip(decoded.codes, masked.columns, strict=True):
            codes.write(column)
        values, rejected = [], {}
        for index, (document, write) in zip(decoded.indices.tolist(), decoded.documents, strict=True):
            try:
                values.append(write(document))
            except RecordRejectedError as error:
                rejected[index] = Rejected(offsets[index], error.reason.value, error.field)
        if rejected:
            raise UnwritableRecordsError(rejected)
        return values


def form_of(plan: Plan, record_format: RecordFormat | None) -> Form:
    """Return what opens the records of a plan."""
    if isinstance(record_format, Hl7Format):
        record_format = Hl7Format(plan)
    form = record_form(record_format, plan.record_bytes)
    return form if plan.fhir is None else fhir_form(plan, form)


def _keys(documents: Sequence[Document], path: Path) -> list[bytes]:
    """Return the text of the key at a path of each document; an empty one for what is no key."""
    return list(map(key_text, first_values(documents, path)))
