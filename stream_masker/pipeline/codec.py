"""The record codec, one for every format: it reads the codes of records, and writes the records with masked codes.

A form (``formats``) opens a record as a document of dicts and lists. A walk (``walk``) treats the documents of a batch
in place, and finds the values of attributes. Once the batch is masked, the masked codes are written into their places,
and the form writes the documents.

Each value of an attribute belongs to an element: a record, or what a ``[*]`` selects in it. An element has one code,
the first one in it. All further codes, the labels and the copies follow it, so every value at an attribute's path is a
mask, or null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any, Final, TypeAlias

import numpy as np

from stream_masker.core.arrays import BoolArray, Int64Array, offsets_from_lengths, slices
from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch
from stream_masker.core.context import Context
from stream_masker.core.ontology import UNKNOWN
from stream_masker.core.random import FieldKeys
from stream_masker.core.statistics.counts import key_slots
from stream_masker.pipeline.fhir import fhir_form
from stream_masker.pipeline.formats import RecordFormat, Write, encode_json, record_form
from stream_masker.pipeline.paths import Document, Path, first_values
from stream_masker.pipeline.plan import AttributePlan, Plan, written_code
from stream_masker.pipeline.records import Inputs, Reason, RecordRejectedError, Rejected, Tally
from stream_masker.pipeline.structs import struct_reader
from stream_masker.pipeline.transforms import Cache, Pseudonyms, key_text, least_number
from stream_masker.pipeline.walk import Branch, Slots, Walk

NO_CODE, SUPPRESSED, NOT_A_CODE, EMPTY, UNKNOWN_CODE, MISSING = range(-1, -7, -1)
"""The value of a code is ``2 * position``, and 1 more if only a prefix of it is known; or one of these numbers."""

_REASONS: Final = (Reason.MISSING, Reason.UNKNOWN_CODE, Reason.EMPTY, Reason.NOT_A_CODE)

Found: TypeAlias = tuple[int, Path, Slots]
"""Values at a path of an attribute, and the number of their place, 0 in a scalar."""

Fill: TypeAlias = tuple[Slots, Int64Array, Cache]
"""Places to write to, the number of the code of each, and the texts of masks."""


class MaskedCodes:
    """The codes of an attribute in the records that can be masked.

    column: of these codes; suppressed: how many unknown codes are not among them; generalized: of how many only a
    prefix is known.
    """

    def __init__(
        self, fills: Sequence[Fill], codes: Int64Array, owners: Int64Array, good: BoolArray, *, is_array: bool
    ) -> None:
        """codes, owners: (m,), the values of all codes and their records, ascending; good: (n,), the records that can
        be masked."""
        self._fills, self._size = fills, len(codes)
        self._present = np.flatnonzero((codes >= 0) & good[owners])
        values, records = codes[self._present], owners[self._present]
        positions = (values >> 1).astype(np.int32)
        if is_array:
            self.column = Column(positions, offsets_from_lengths(np.bincount(records, minlength=len(good))[good]))
        else:
            column = np.full(len(good), ABSENT, np.int32)
            column[records] = positions
            self.column = Column(column[good])
        self.suppressed = int(np.count_nonzero(codes[good[owners]] == SUPPRESSED))
        self.generalized = int(np.count_nonzero(values & 1))

    def write(self, masked: Column) -> None:
        """Write the masked codes, their labels and copies."""
        positions = np.full(self._size, ABSENT)
        positions[self._present] = masked.codes[masked.codes >= 0]
        for slots, elements, texts in self._fills:
            slots.fill(map(texts.__getitem__, positions[elements].tolist()))


class Attribute:
    """The codes of an attribute."""

    def __init__(self, plan: AttributePlan) -> None:
        self.plan, self._is_required = plan, plan.missing == "reject"
        places = [(number if plan.is_array else 0, place) for number, place in enumerate(plan.places)]
        self._written = [(number, path) for number, place in places for path in place.written]
        self._elements = [(number, place.path.elements) for number, place in places]
        self._lists = [path.around for _, path in self._elements if plan.is_array]
        self._codes, self._labels = [place.path for place in plan.places], {place.label for place in plan.places}
        self._values = Cache(self._value)
        concepts, labels = plan.concepts, plan.concepts.taxonomy.labels
        self._label_texts = Cache(lambda position: None if position == ABSENT else labels[position] or None)
        self._texts = Cache(lambda code: None if code == ABSENT else written_code(concepts, plan.style, code))

    def read(self, walk: Walk, records: int) -> Callable[[BoolArray], MaskedCodes]:
        """Return the codes of a batch, as soon as it is known which records can be masked. Those that lack a code, or
        have an unknown one, are refused.

        Null is no value of an attribute, and stays null.
        """
        places, required = len(self._codes), self._required(walk, records) if self._is_required else []
        found = [(number, path, part.without_null()) for number, path in self._written for part in walk.found[path]]
        numbers, keys = _numbered([*required, *found], places)
        owners, values = keys // places, np.full(len(keys), NO_CODE)
        for own in numbers[: len(required)]:
            values[own] = MISSING
        placed = [(path, slots, own) for (_, path, slots), own in zip(found, numbers[len(required) :], strict=True)]
        for code in reversed(self._codes):  # written backwards, so that the first code of an element counts
            columns = [(own, self._looked_up(slots.values)) for path, slots, own in placed if path == code]
            if columns[1:]:
                where = np.hstack([slots.places for path, slots, _ in placed if path == code])
                own, codes = np.concatenate(columns, axis=1)[:, np.lexsort(where[::-1])]
                columns = [(own, codes)]
            for own, codes in columns:
                values[own[::-1]] = codes[::-1]
        texts = dict.fromkeys(self._labels, self._label_texts)
        fills = [(slots, own, texts.get(path, self._texts)) for path, slots, own in placed]
        for element in np.flatnonzero(values < SUPPRESSED).tolist():
            path = self._codes[keys[element] % places]
            walk.refuse([int(owners[element])], _REASONS[int(values[element]) - MISSING], path)
        return partial(MaskedCodes, fills, values, owners, is_array=self.plan.is_array)

    def _required(self, walk: Walk, records: int) -> list[Found]:
        """Return what must have a code: records, or the elements of arrays. Records without such a list are refused."""
        if self.plan.is_array:
            lists = (slots.without_null() for path in self._lists for slots in walk.found[path])
            without = set(range(records)).difference(*(slots.places[0].tolist() for slots in lists))
            walk.refuse(sorted(without), Reason.MISSING, self._codes[0])
        return [(number, path, slots) for number, path in self._elements for slots in walk.found[path]]

    def _looked_up(self, texts: list[Any]) -> Int64Array:
        """Return the values of codes, or of what stands in their places."""
        try:
            return np.fromiter(map(self._values.__getitem__, texts), np.int64, len(texts))
        except TypeError:  # objects and lists are no keys of a dictionary
            return self._looked_up([0 if isinstance(text, dict | list) else text for text in texts])

    def _value(self, text: Any) -> int:
        if type(text) is not str:
            return NOT_A_CODE
        if not text or text.isspace():
            return EMPTY if self._is_required else NO_CODE
        concepts = self.plan.concepts
        match = concepts.find(text)
        if match.position == UNKNOWN:
            return SUPPRESSED if concepts.unknown == "suppress" else UNKNOWN_CODE
        return 2 * match.position + (match.how == "ancestor")


def _numbered(parts: Sequence[Found], places: int) -> tuple[list[Int64Array], Int64Array]:
    """Return the number of the element of each value, and (m,) int64: record * places + place of each element.

    Elements are numbered by record, place, and the positions in the lists that have a value for each element.
    """
    own = [(place, path.levels, id(slots.places)) for place, path, slots in parts]  # one element may have many values
    distinct = dict(zip(own, parts, strict=True))
    levels = max((len(path.levels) for _, path, _ in parts), default=0)
    if len(distinct) == 1 and len(parts[0][2].places) == 1 + levels:  # in order, each element once
        place, _, slots = parts[0]
        return [np.arange(slots.places.shape[1])] * len(parts), slots.places[0] * places + place
    columns = [np.zeros((1 + levels, slots.places.shape[1]), np.int64) for _, _, slots in distinct.values()]
    for (place, path, slots), column in zip(distinct.values(), columns, strict=True):
        column[0] = slots.places[0] * places + place
        column[1 : 1 + len(path.levels)] = slots.places[list(path.levels)]
    keys = np.concatenate([np.zeros((1 + levels, 0), np.int64), *columns], axis=1)
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    numbers = np.empty_like(order)
    numbers[order] = np.cumsum(is_first) - 1
    each = dict(zip(distinct, slices(numbers, [column.shape[1] for column in columns]), strict=True))
    return [each[one] for one in own], keys[0, is_first]


@dataclass(slots=True, kw_only=True)
class RecordPart:
    """n consecutive records of one partition that are read and masked together. Of these, k can be masked. Tombstones
    are neither decoded nor rejected.

    indices: (k,) int64, ascending: the records that can be masked; batch: their codes; keys: those of their noise, None
    if the plan has no noise key; rejected: the rejections, by offset; tally: see ``records.Tally``; documents: the k
    documents; writes: what writes them, by index; codes: of each attribute, with the places to write them to.

    ``Codec.write`` sets masked, the batch after masking, and values: the n values to write, None for tombstones and
    records that are not masked. It releases documents and codes.
    """

    indices: Int64Array
    batch: Batch
    keys: FieldKeys | None
    rejected: Mapping[int, Rejected]
    tally: Tally
    documents: Sequence[Document]
    writes: Mapping[int, Write]
    codes: Sequence[MaskedCodes]
    masked: MaskedBatch = field(init=False)
    values: Sequence[bytes | None] = field(init=False)


class Codec:
    """Reads and writes the records of a plan."""

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms, record_format: RecordFormat | None = None) -> None:
        """``record_format``: that of the records, None for JSON."""
        self._plan = plan
        self._format = record_format
        form = record_form(record_format and record_format.reading(plan.paths), plan.record_bytes)
        self._open = form if plan.fhir is None else fhir_form(plan, form)
        self._pseudonyms, self._paths = pseudonyms, Branch.of(plan)
        is_json = record_format is None and plan.fhir is None
        self._read_structs = struct_reader(plan, self._paths) if is_json else None
        self._attributes = [Attribute(attribute) for attribute in plan.attributes]
        self._keys = set(plan.keys)

    def read(self, records: Inputs, known: Mapping[int, Rejected] | None = None) -> RecordPart:
        """Read records. An error in a record rejects that record only.

        known: the rejections of records that must not be read, by offset. Raises FormatUnavailableError.
        """
        offsets = records.offsets
        rejected = {offset: known[offset] for offset in offsets if offset in known} if known else {}
        if self._format is not None:
            self._format.prepare(value for value in records.values if value is not None)
        opened, writes = self._opened(records, rejected)
        indices, documents = np.array([*opened], np.int64), [*opened.values()]
        keys_of = {path: list(map(key_text, first_values(documents, path))) for path in self._keys}
        walk = Walk(self._plan, self._pseudonyms, keys_of, is_ordered=self._read_structs is not None)
        if (noise_key := self._plan.noise_key) is not None:
            without = (record for record, key in enumerate(keys_of[noise_key]) if not key)
            walk.refuse(without, Reason.MISSING_NOISE_KEY, noise_key)
        walk.through(documents, self._paths)
        contexts = self._contexts(documents)
        read = {attribute.plan.name: attribute.read(walk, len(documents)) for attribute in self._attributes}
        good = np.ones(len(documents), np.bool_)
        good[list(walk.refused)] = False
        codes = {name: codes_of(good) for name, codes_of in read.items()}
        for name, one in codes.items():
            walk.tally.update({("suppressed", name): one.suppressed, ("generalized", name): one.generalized})
        rejected |= {offsets[int(indices[number])]: one for number, one in walk.refused.items()}
        keys = None if noise_key is None else FieldKeys(self._pseudonyms.secret, [*compress(keys_of[noise_key], good)])
        batch = Batch(
            int(np.count_nonzero(good)),
            tuple(one.column for one in codes.values()),
            slots=None if keys is None else key_slots(keys),
            context=None if contexts is None else contexts[good],
        )
        return RecordPart(
            indices=indices[good],
            batch=batch,
            keys=keys,
            rejected=dict(sorted(rejected.items())),
            tally=walk.tally,
            documents=list(compress(documents, good)),
            writes=writes,
            codes=list(codes.values()),
        )

    def _opened(self, records: Inputs, rejected: dict[int, Rejected]) -> tuple[dict[int, Document], dict[int, Write]]:
        """Return the documents of records, and what writes each, by index. Others are rejected."""
        given = enumerate(zip(records.offsets, records.values, strict=True))
        values = {k: value for k, (offset, value) in given if value is not None and offset not in rejected}
        structs = self._read_structs([*values.values()]) if self._read_structs else [None] * len(values)
        opened, writes = dict(zip(values, structs, strict=True)), dict.fromkeys(values, encode_json)
        for index in [index for index, document in opened.items() if document is None]:
            try:
                opened[index], writes[index] = self._open(values[index])
            except RecordRejectedError as error:
                rejected[records.offsets[index]] = Rejected(error.reason, error.field)
                del opened[index]
        return opened, writes

    def _contexts(self, documents: Sequence[Document]) -> Int64Array | None:
        """Return (n,): the contexts of n documents, whose fields are treated; None if the plan has no context."""
        if not self._plan.context:
            return None
        columns = [
            [least_number(value) if attribute.bounds else value for value in first_values(documents, path)]
            for path, attribute in self._plan.context.items()
        ]
        return Context(tuple(self._plan.context.values())).numbers(columns)

    def write(self, part: RecordPart, masked: MaskedBatch, offsets: Sequence[int]) -> dict[int, Rejected]:
        """Write masked records. Return the rejections of those that do not fit their schema; ``offsets``: of all n."""
        for codes, column in zip(part.codes, masked.columns, strict=True):
            codes.write(column)
        values: list[bytes | None] = [None] * len(offsets)
        rejected = {}
        for index, document in zip(part.indices.tolist(), part.documents, strict=True):
            try:
                values[index] = part.writes[index](document)
            except RecordRejectedError as error:
                rejected[offsets[index]] = Rejected(error.reason, error.field)
        part.masked, part.values = masked, values
        part.documents, part.writes, part.codes = (), {}, ()  # the next part's documents take their memory
        return rejected
