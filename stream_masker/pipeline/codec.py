"""The record codec, one for every format: it reads the codes of records, and writes the records with masked codes.

A form (``formats``) opens a record as a document of dicts and lists. The field policy treats the document in place
(``fields``), and notes the places of codes, labels, copies and numbers (``values``). Once the batch is masked, the
masked values are written into these places, and the form writes the documents. Batches should have a few hundred
records: their documents, which are kept until they are written, then stay in the processor's cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.pipeline.fhir import fhir_form
from stream_masker.pipeline.fields import Document, DocumentTreatment, Notes, Treat, key_text
from stream_masker.pipeline.formats import (
    Form,
    RecordFormat,
    UnwritableRecordsError,
    Write,
    format_form,
    json_form,
)
from stream_masker.pipeline.paths import NOTHING, EachStep, FilterStep, JsonValue, Path, reader
from stream_masker.pipeline.plan import AttributePlan, Place, Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import Inputs, Rejected
from stream_masker.pipeline.style import Style, StyleCounts
from stream_masker.pipeline.values import (
    CodePlace,
    Elements,
    NominalValues,
    NumericValues,
    Places,
    ReadCodes,
    ReadNumbers,
    Refusals,
    alpha_reader,
)

DOCUMENTS: Final = 500
"""The number of records that are read, masked and written together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch:
    """n records, of which k can be masked. Tombstones are neither decoded nor rejected.

    indices: (k,) int64, ascending: the records that can be masked; batch: their codes; keys: their noise keys, empty if
    the plan has none; rejected: the rejections, by index; unknown: for each attribute the number of values without a
    concept of their own; lost: the number of those that are not in ``batch``; styles: for each attribute the styles of
    the texts in ``batch``; emptied: the number of values that a transform cannot treat, by configured path; documents:
    the k documents, each with what writes it; codes, numbers: of each attribute, with the places to write them to;
    good: (m,) bool, which of the m documents can be masked.
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
    numbers: Sequence[ReadNumbers]
    good: BoolArray


@dataclass(slots=True)
class _Opened:
    """The documents of a batch while they are read, with the index, noise key, alpha, unit and context of each."""

    indices: list[int]
    documents: list[tuple[Document, Write]]
    keys: list[bytes]
    alphas: list[float]
    units: list[bytes]
    kinds: list[list[int]]


class Codec:
    """Reads and writes the records of a plan."""

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms, record_format: RecordFormat | None = None) -> None:
        """``record_format``: that of the records, None for JSON."""
        self._plan = plan
        self._format = record_format
        self._open = form_of(plan, record_format)
        self._places = _PlacesOfPlan(plan)
        self._treatment = DocumentTreatment(plan, pseudonyms, self._places.notes)
        self._noise_key = None if plan.noise_key is None else reader(plan.noise_key)
        self._unit = None if plan.unit is None else reader(plan.unit)
        self._alpha = None if plan.alpha is None else alpha_reader(plan.alpha)
        self._alpha_value: Callable[[JsonValue], JsonValue] = lambda _: NOTHING
        if plan.alpha is not None and plan.alpha.path is not None:
            self._alpha_value = reader(plan.alpha.path)
        self._kinds = [(reader(field.path), field) for field in plan.context]

    def set_styles(self, styles: Sequence[Style]) -> None:
        """Set the styles in which the attributes' codes are written from now on; at first those of the ontologies."""
        for attribute, style in zip(self._places.nominal, styles, strict=True):
            attribute.set_style(style)

    def read(self, records: Inputs, known: Mapping[int, Rejected] | None = None) -> DecodedBatch:
        """Read records. An error in a record rejects that record only.

        known: the rejections of records that must not be read, by index. Raises FormatUnavailableError.
        """
        rejected, refusals = dict(known or {}), Refusals()
        if self._format is not None:
            self._format.prepare(value for value in records.values if value is not None)
        self._places.start()
        opened = _Opened([], [], [], [], [], [])
        for index, value in enumerate(records.values):
            if value is None or index in rejected:
                continue
            try:
                self._read(opened, records, index, value, refusals)
            except RecordRejectedError as error:
                rejected[index] = Rejected(records.offsets[index], error.reason.value, error.field)
        emptied = self._treatment.finish()
        codes = [attribute.read(refusals) for attribute in self._places.nominal]
        numbers = [attribute.read(refusals) for attribute in self._places.numeric]
        for number, (reason, field) in refusals.items():
            index = opened.indices[number]
            rejected[index] = Rejected(records.offsets[index], reason.value, field)
        return self._decoded(opened, codes, numbers, refusals, dict(sorted(rejected.items())), emptied)

    def _read(self, opened: _Opened, records: Inputs, index: int, value: bytes, refusals: Refusals) -> None:
        """Open a record and treat its document. One that is rejected in doing so stays, but has a refusal."""
        document, write = self._open(value)
        key = self._key_of(document)
        alpha = None
        if self._alpha is not None:
            alpha = self._alpha(self._alpha_value(document), records.headers[index] if records.headers else ())
        opened.indices.append(index)
        opened.documents.append((document, write))
        opened.keys.append(key)
        if alpha is not None:
            opened.alphas.append(alpha)
        if self._unit is not None:
            opened.units.append(key_text(self._unit(document)))
        if self._kinds:
            opened.kinds.append([field.kind_of(read(document)) for read, field in self._kinds])
        self._places.documents.enter()
        try:
            self._treatment.treat(document)
        except RecordRejectedError as error:
            refusals[self._places.documents.number] = error.reason, error.field

    def _key_of(self, document: Document) -> bytes:
        if self._noise_key is None or self._plan.noise_key is None:
            return b""
        key = key_text(self._noise_key(document))
        if not key:
            raise RecordRejectedError(Reason.MISSING_NOISE_KEY, self._plan.noise_key.text)
        return key

    def _decoded(
        self,
        opened: _Opened,
        codes: Sequence[ReadCodes],
        numbers: Sequence[ReadNumbers],
        refusals: Refusals,
        rejected: Mapping[int, Rejected],
        emptied: Mapping[str, int],
    ) -> DecodedBatch:
        good = np.ones(len(opened.indices), np.bool_)
        good[list(refusals)] = False
        chosen = np.flatnonzero(good).tolist()
        batch = Batch(
            len(chosen),
            tuple(read.column(good) for read in codes),
            numeric=np.array([read.values[good] for read in numbers]).T.copy() if numbers else None,
            units=_unit_column([opened.units[number] for number in chosen]) if opened.units else None,
            context=self._context_column(opened.kinds, good),
        )
        counts = [
            (unknown + rejections, lost + rejections)
            for (unknown, lost), rejections in zip(
                (read.unknown(good) for read in codes), self._rejected_for_unknown_codes(rejected), strict=True
            )
        ]
        return DecodedBatch(
            indices=np.array(opened.indices, np.int64)[good],
            batch=batch,
            keys=[opened.keys[number] for number in chosen] if self._noise_key is not None else [],
            rejected=rejected,
            unknown=[unknown for unknown, _ in counts],
            lost=[lost for _, lost in counts],
            styles=[read.styles() for read in codes],
            emptied=emptied,
            documents=[opened.documents[number] for number in chosen],
            codes=codes,
            numbers=numbers,
            good=good,
        )

    def _rejected_for_unknown_codes(self, rejected: Mapping[int, Rejected]) -> list[int]:
        """Return the number of records that are rejected because of an unknown code, by attribute."""
        fields = Counter(field for _, reason, field in rejected.values() if reason == Reason.UNKNOWN_CODE)
        return [
            sum(fields[text] for text in {place.path.text for place in attribute.places})
            for attribute in self._plan.attributes
        ]

    def _context_column(self, kinds: Sequence[Sequence[int]], good: BoolArray) -> Int64Array | None:
        shape = len(good), len(self._kinds)
        return self._plan.contexts_of(np.array(kinds, np.int64).reshape(shape)[good])

    def write(self, decoded: DecodedBatch, masked: MaskedBatch, offsets: Sequence[int]) -> list[bytes]:
        """Return the k masked records. ``offsets``: those of all n records.

        Raises UnwritableRecordsError if some of them do not fit their schema.
        """
        for codes, column in zip(decoded.codes, masked.columns, strict=True):
            codes.write(column)
        if masked.numeric is not None:
            every = np.full((len(decoded.good), len(decoded.numbers)), np.nan)
            every[decoded.good] = masked.numeric
            for numbers, values_of in zip(decoded.numbers, every.T, strict=True):
                numbers.write(values_of)
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
    form = json_form(plan.limits) if record_format is None else format_form(record_format, plan.limits)
    return form if plan.fhir is None else fhir_form(plan, form)


def _unit_column(units: Sequence[bytes]) -> Int64Array:
    """Return (k,) int64: the unit of each record, numbered in the order of their texts."""
    numbers = {unit: number for number, unit in enumerate(sorted(set(units)))}
    return np.array([numbers[unit] for unit in units], np.int64)


class _PlacesOfPlan:
    """The attributes of a plan, with the places of their values, and the elements that these are in."""

    def __init__(self, plan: Plan) -> None:
        self.documents = Elements()
        self._elements: dict[Path, Elements] = {}
        self._met: dict[Path, Callable[[], None]] = {}
        self._by_path: dict[Path, Places] = {}
        self.nominal = [self._nominal(attribute) for attribute in plan.attributes]
        self.numeric = [NumericValues(number, self._add(number.path)) for number in plan.numeric]
        masked: dict[Path, Treat] = {path: places.note for path, places in self._by_path.items()}
        entered = {path: elements.enter for path, elements in self._elements.items()}
        self.notes = Notes(masked, entered, self._met)

    def start(self) -> None:
        """Begin a batch."""
        for elements in (self.documents, *self._elements.values()):
            elements.start()
        for places in self._by_path.values():
            places.start()

    def _nominal(self, plan: AttributePlan) -> NominalValues:
        places = [self._code_place(place) for place in plan.places]
        if plan.is_array and plan.missing == "reject":
            for place in plan.places:
                *_, last = _array_prefixes(place.path)
                self._met[last] = self._elements[last].meet
        return NominalValues(plan, places)

    def _code_place(self, place: Place) -> CodePlace:
        labels = [] if place.label is None else [self._add(place.label)]
        return CodePlace(place.path, self._add(place.path), labels, [self._add(copy) for copy in place.copies])

    def _add(self, path: Path) -> Places:
        elements = self.documents
        for prefix in _array_prefixes(path):
            outer = elements
            elements = self._elements.setdefault(prefix, Elements(outer))
        self._by_path[path] = Places(elements)
        return self._by_path[path]


def _array_prefixes(path: Path) -> Iterator[Path]:
    """Yield the path up to each of its ``[*]``."""
    for end, step in enumerate(path.steps, start=1):
        if isinstance(step, EachStep) or (isinstance(step, FilterStep) and step.every):
            yield Path(path.text, path.steps[:end])
