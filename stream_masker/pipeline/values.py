"""The values of attributes in the documents of a batch: their concepts, and the masked values written back.

Each value belongs to an element: a record, or what a ``[*]`` selects in it. An element has one code, the first one in
it. All further codes, the labels and the copies follow it, so whatever an attribute's path selects is written by the
mechanism, or is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stream_masker.core.batch import ABSENT, Column
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.ontology import UNKNOWN
from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.plan import AttributePlan, Place
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.style import CANONICAL, STYLE_BITS, Codes, Style, StyleCounts, style_of
from stream_masker.pipeline.transforms import Cache
from stream_masker.pipeline.walk import Elements, Reading, Slots, Tree

NO_CODE, SUPPRESSED, NOT_A_CODE, EMPTY, UNKNOWN_CODE, MISSING = range(-1, -7, -1)
SHIFT: Final = STYLE_BITS + 1
BY_PREFIX: Final = 1 << STYLE_BITS
"""The value of a code is ``position << SHIFT | BY_PREFIX | traits``: BY_PREFIX if only a prefix of it is known,
``traits`` those of its text (``pipeline.style``); or one of the negative numbers above."""

_REASONS: Final = {
    NOT_A_CODE: Reason.NOT_A_CODE,
    EMPTY: Reason.EMPTY,
    UNKNOWN_CODE: Reason.UNKNOWN_CODE,
    MISSING: Reason.MISSING,
}


@dataclass(frozen=True, slots=True)
class Found:
    """The values that a path selects in a batch: their places, and the number of the element of each."""

    slots: Sequence[Slots]
    numbers: Int64Array

    @classmethod
    def of(cls, reading: Reading, path: Path, elements: Elements, *, keep_null: bool = False) -> Found:
        """Return the values of a path; ``elements``: the innermost ones. Null stays null unless ``keep_null``."""
        found = reading.found.get(path, [])
        if not keep_null:
            found = [s.where(value is not None for value in s.values) if None in s.values else s for s in found]
        numbers = [elements.numbers[slots.rows[elements]] for slots in found]
        return cls(found, np.concatenate(numbers) if numbers else np.empty(0, np.int64))

    @property
    def values(self) -> list[Any]:
        return [value for slots in self.slots for value in slots.values]

    def fill(self, values: Sequence[Any]) -> None:
        """Write a value into each place."""
        start = 0
        for slots in self.slots:
            slots.fill(values[start : start + len(slots.values)])
            start += len(slots.values)


class Attribute:
    """The codes of an attribute."""

    def __init__(self, plan: AttributePlan, tree: Tree) -> None:
        self.plan, self._tree = plan, tree
        self._elements = {path: tree.elements_of(path) for path in plan.written}
        self._is_optional = plan.missing == "keep"
        self._values = Cache(self._value)
        labels = plan.concepts.taxonomy.labels
        self._labels = Cache(lambda position: None if position == ABSENT else labels[position] or None)
        self.set_style(CANONICAL)

    def set_style(self, style: Style) -> None:
        """Set the style in which codes are written from now on."""
        codes = Codes(self.plan.concepts, style)
        self._codes = Cache(lambda position: None if position == ABSENT else codes[position])

    def read(self, reading: Reading) -> ReadCodes:
        """Return the codes of a batch. The records that lack one, or have an unknown one, are refused."""
        values, records, places, start = [], [], [], 0
        for place in self.plan.places:
            elements = self._elements[place.path].base
            values.append(self._of_place(place, reading))
            records.append(elements.records)
            for found, numbers, texts in self._filled(place, reading):
                places.append((found, np.where(numbers < 0, -1, numbers + start), texts))
            start += len(elements.records) if self.plan.is_array else 0
        if not self.plan.is_array:
            values, records = [_first_present(values)], records[:1]
        for of_place, of_records, place in zip(values, records, self.plan.places, strict=False):
            for element in np.flatnonzero(of_place < SUPPRESSED).tolist():
                reading.refuse([int(of_records[element])], _REASONS[int(of_place[element])], place.path)
        if self.plan.is_array and not self._is_optional:
            self._refuse_without_lists(reading)
        return ReadCodes.ordered(self.plan.is_array, np.concatenate(values), np.concatenate(records), places)

    def _of_place(self, place: Place, reading: Reading) -> Int64Array:
        """Return the value of each element: that of the first code in it."""
        inner, is_only = self._elements[place.path], self.plan.is_array or not self.plan.also
        found = Found.of(reading, place.path, inner, keep_null=is_only and not self._is_optional)
        values = np.full(len(inner.base.records), NO_CODE if self._is_optional else MISSING)
        order = np.argsort(found.numbers, kind="stable")[::-1]
        values[inner.within(inner.base)[found.numbers[order]]] = self._looked_up(found.values)[order]
        return values

    def _refuse_without_lists(self, reading: Reading) -> None:
        lists = [self._elements[place.path].base.records_with_lists for place in self.plan.places]
        without = np.setdiff1d(self._tree.documents.records, np.concatenate(lists))
        reading.refuse(without.tolist(), Reason.MISSING, self.plan.path)

    def _filled(self, place: Place, reading: Reading) -> Iterator[tuple[Found, Int64Array, Cache]]:
        """Yield the places to fill with the elements whose masks they get, and the texts to write."""
        for path in place.written:
            inner = self._elements[path]
            found = Found.of(reading, path, inner)
            matched = inner.base.matched(self._elements[place.path].base)
            numbers = matched[inner.within(inner.base)[found.numbers]]
            yield found, numbers, self._labels if path is place.label else self._codes

    def _looked_up(self, texts: Sequence[Any]) -> Int64Array:
        try:
            return np.fromiter(map(self._values.__getitem__, texts), np.int64, len(texts))
        except TypeError:  # an object or a list, which cannot be a key
            return self._looked_up([0 if isinstance(text, dict | list) else text for text in texts])

    def _value(self, text: Any) -> int:
        if type(text) is not str:
            return NOT_A_CODE
        if not text or text.isspace():
            return NO_CODE if self._is_optional else EMPTY
        concepts = self.plan.concepts
        match = concepts.find(text)
        if match.position == UNKNOWN:
            return SUPPRESSED if concepts.unknown == "suppress" else UNKNOWN_CODE
        traits = style_of(text, concepts.taxonomy.ids[match.position], match.how)
        return match.position << SHIFT | (BY_PREFIX if match.how == "ancestor" else 0) | traits


def _first_present(values: Sequence[Int64Array]) -> Int64Array:
    """Return the values of the first of several places that has one; all of them have the same elements."""
    first = values[0]
    for others in values[1:]:
        first = np.where((first == NO_CODE) | (first == MISSING), others, first)
    return first


@dataclass(slots=True)
class ReadCodes:
    """The codes of an attribute in a batch: their values and records, in the order of the records.

    places: those to fill, with the numbers of their codes, -1 for none, and the texts to write; present: the numbers of
    the codes that are masked.
    """

    is_array: bool
    values: Int64Array
    records: Int64Array
    places: list[tuple[Found, Int64Array, Cache]]
    present: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def ordered(
        cls,
        is_array: bool,
        values: Int64Array,
        records: Int64Array,
        places: list[tuple[Found, Int64Array, Cache]],
    ) -> ReadCodes:
        """Return codes of several places in the order of their records."""
        order = np.argsort(records, kind="stable")
        ranks = np.full(len(order) + 1, -1)
        ranks[order] = np.arange(len(order))
        return cls(is_array, values[order], records[order], [(found, ranks[n], texts) for found, n, texts in places])

    def column(self, good: BoolArray) -> Column:
        """Return the column of the records that can be masked; ``good``: (n,) bool."""
        self.present = np.flatnonzero((self.values >= 0) & good[self.records])
        positions, records = (self.values[self.present] >> SHIFT).astype(np.int32), self.records[self.present]
        if self.is_array:
            return Column(positions, np.concatenate(([0], np.cumsum(np.bincount(records, minlength=len(good))[good]))))
        column = np.full(len(good), ABSENT, np.int32)
        column[records] = positions
        return Column(column[good])

    def styles(self) -> StyleCounts:
        """Return the styles of the codes of the column."""
        return StyleCounts.of(self.values[self.present] & (BY_PREFIX - 1))

    def unknown(self, good: BoolArray) -> tuple[int, int]:
        """Return the number of codes without a concept of their own, and how many of these are removed."""
        values = self.values[good[self.records]]
        lost = int(np.count_nonzero(values == SUPPRESSED))
        return lost + int(np.count_nonzero(values[values >= 0] & BY_PREFIX)), lost

    def write(self, masked: Column) -> None:
        """Write the masked codes, their labels and copies."""
        positions = np.full(len(self.values) + 1, ABSENT)
        positions[self.present] = masked.codes[masked.codes >= 0]
        for found, numbers, texts in self.places:
            found.fill(list(map(texts.__getitem__, positions[numbers].tolist())))
