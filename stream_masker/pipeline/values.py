"""The values of attributes in the documents of a batch: their concepts, and the masked codes written back.

Each value belongs to an element: a record, or what a ``[*]`` selects in it. An element has one code, the first one in
it. All further codes, the labels and the copies follow it, so every value at an attribute's path is a mask, or null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.batch import ABSENT, Column
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.ontology import UNKNOWN
from stream_masker.pipeline.paths import NameStep, Path
from stream_masker.pipeline.plan import AttributePlan, Place
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.style import CANONICAL, STYLE_BITS, Codes, Style, StyleCounts, style_of
from stream_masker.pipeline.transforms import Cache
from stream_masker.pipeline.walk import Reading, Slots, Tree

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

_NONE: Int64Array = np.empty(0, np.int64)


class Fill(NamedTuple):
    """Places to write to, the number of the element of each, -1 for none, and the texts of positions."""

    slots: Slots
    numbers: Int64Array
    texts: Cache


Elements: TypeAlias = tuple[Int64Array, Int64Array, list[Fill]]
"""The elements of a place in a batch: their values, their records, and what is to be filled."""


class Attribute:
    """The codes of an attribute."""

    def __init__(self, plan: AttributePlan, tree: Tree) -> None:
        self.plan, self._is_optional = plan, plan.missing == "keep"
        self._arrays = {place.path: tree.array_of(place.path) for place in plan.places} if plan.is_array else {}
        self._levels = {path: _levels(path) for path in plan.written}
        self._values = Cache(self._value)
        labels = plan.concepts.taxonomy.labels
        self._labels = Cache(lambda position: None if position == ABSENT else labels[position] or None)
        self.set_style(CANONICAL)

    def set_style(self, style: Style) -> None:
        """Set the style in which codes are written from now on."""
        codes = Codes(self.plan.concepts, style)
        self._codes = Cache(lambda position: None if position == ABSENT else codes[position])

    def read(self, reading: Reading, records: int) -> ReadCodes:
        """Return the codes of a batch. The records that lack one, or have an unknown one, are refused."""
        parts = [self._of_place(place, reading, records) for place in self.plan.places]
        if not self.plan.is_array:
            parts = [_first_present(parts)]
        for (values, owners, _), place in zip(parts, self.plan.places, strict=False):
            for element in np.flatnonzero(values < SUPPRESSED).tolist():
                reading.refuse([int(owners[element])], _REASONS[int(values[element])], place.path)
        if self._arrays and not self._is_optional:
            lists = (slots.places[0] for trie in self._arrays.values() for slots in reading.lists[trie])
            without = np.setdiff1d(np.arange(records), np.concatenate([_NONE, *lists]))
            reading.refuse(without.tolist(), Reason.MISSING, self.plan.path)
        return ReadCodes.joined(parts, is_array=self.plan.is_array)

    def _of_place(self, place: Place, reading: Reading, records: int) -> Elements:
        """Return the elements of a place with their first codes. Without ``missing: keep``, each one needs a code."""
        is_only = self.plan.is_array or not self.plan.also
        codes = _found(reading, place.path, keep_null=is_only and not self._is_optional)
        written = [(path, slots) for path in place.written for slots in _found(reading, path)]
        is_required = not self._is_optional
        entered = reading.elements[self._arrays[place.path]] if self._arrays and is_required else []
        levels = self._levels[place.path]
        places = [slots.places_at(levels) for slots in (*entered, *codes)]
        numbers = _numbered([*places, *(slots.places_at(self._levels[path]) for path, slots in written)])
        owners = np.arange(records)
        if self.plan.is_array:
            owners = np.empty(max((part.max(initial=-1) for part in numbers), default=-1) + 1, np.int64)
            for part, slots in zip(numbers, (*entered, *codes, *(slots for _, slots in written)), strict=True):
                owners[part] = slots.places[0]
        values = np.full(len(owners), MISSING if is_required and not self._arrays else NO_CODE)
        for part in numbers[: len(entered)]:
            values[part] = MISSING
        self._look_up(codes, numbers[len(entered) : len(places)], values)
        texts = (self._labels if path is place.label else self._codes for path, _ in written)
        return values, owners, list(map(Fill, (slots for _, slots in written), numbers[len(places) :], texts))

    def _look_up(self, codes: Sequence[Slots], numbers: Sequence[Int64Array], values: Int64Array) -> None:
        """Set the values of elements, by the numbers of the elements of codes; the first code of each counts."""
        if not codes:
            return
        found, elements = [text for slots in codes for text in slots.values], np.concatenate(numbers)
        try:
            looked_up = np.fromiter(map(self._values.__getitem__, found), np.int64, len(found))
        except TypeError:  # an object or a list, which cannot be a key
            hashable = (0 if isinstance(text, dict | list) else text for text in found)
            looked_up = np.fromiter(map(self._values.__getitem__, hashable), np.int64, len(found))
        order = np.arange(len(found))
        if len(codes) > 1:
            order = np.lexsort(
                [np.concatenate(column) for column in zip(*(slots.places for slots in codes), strict=True)][::-1]
            )
        values[elements[order[::-1]]] = looked_up[order[::-1]]

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


def _levels(path: Path) -> tuple[int, ...]:
    """Return which of the lists that a path enters have an element for each value, counted from 1."""
    lists = enumerate((step for step in path.steps if not isinstance(step, NameStep)), start=1)
    each = set(path.array_steps)
    return tuple(level for level, step in lists if step in each)


def _found(reading: Reading, path: Path, *, keep_null: bool = False) -> list[Slots]:
    """Return the values that a path selects; null stays null unless ``keep_null``."""
    found = reading.found.get(path, [])
    if keep_null:
        return found
    return [s.where(value is not None for value in s.values) if None in s.values else s for s in found]


def _numbered(parts: Sequence[Sequence[Int64Array]]) -> list[Int64Array]:
    """Return the number of each element, ascending in the order of the documents; equal places have equal numbers.

    ``parts``: the places of elements: their records, and their positions in lists, from the outside in.
    """
    if not parts:
        return []
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    numbers = columns[0]
    for positions in columns[1:]:
        joined = numbers * (positions.max(initial=0) + 1) + positions
        numbers = np.unique(joined, return_inverse=True)[1]
    return np.split(numbers, np.cumsum([len(part[0]) for part in parts])[:-1])


def _first_present(parts: Sequence[Elements]) -> Elements:
    """Return the codes of several places of one code: the first one that is there counts, and all are filled."""
    values, owners, fills = parts[0]
    for others, _, more in parts[1:]:
        values, fills = np.where((values == NO_CODE) | (values == MISSING), others, values), [*fills, *more]
    return values, owners, fills


@dataclass(slots=True)
class ReadCodes:
    """The codes of an attribute in a batch: their values and records, in the order of the records.

    fills: what to fill with the masks of which codes; present: the numbers of the codes that are masked.
    """

    is_array: bool
    values: Int64Array
    records: Int64Array
    fills: list[Fill]
    present: Int64Array = field(default_factory=lambda: _NONE)

    @classmethod
    def joined(cls, parts: Sequence[Elements], *, is_array: bool) -> ReadCodes:
        """Return the codes of several places in the order of their records."""
        records = np.concatenate([owners for _, owners, _ in parts])
        order = np.argsort(records, kind="stable")
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        starts = np.cumsum([0, *(len(owners) for _, owners, _ in parts)])
        fills = [
            Fill(slots, ranks[start + numbers], texts)
            for start, (_, _, fills) in zip(starts, parts, strict=False)
            for slots, numbers, texts in fills
        ]
        return cls(is_array, np.concatenate([values for values, _, _ in parts])[order], records[order], fills)

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
        positions = np.full(len(self.values), ABSENT)
        positions[self.present] = masked.codes[masked.codes >= 0]
        for slots, numbers, texts in self.fills:
            slots.fill(map(texts.__getitem__, positions[numbers].tolist()))
