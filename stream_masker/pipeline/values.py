"""The values of attributes in documents: their places, their concepts, and the masked values written back.

While documents are treated, ``Places`` of codes, labels, copies and numbers are noted. Each belongs to an element, a
record or what a ``[*]`` selects in it. An element has one code: the first one noted. All further codes, the labels and
the copies of the element follow it, so whatever an attribute's path selects is written by the mechanism, or is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Final, TypeAlias

import numpy as np
import orjson

from stream_masker.core.batch import ABSENT, Column
from stream_masker.core.dtypes import BoolArray, Float64Array, Int64Array
from stream_masker.core.numeric import LARGEST_NUMBER
from stream_masker.core.ontology import UNKNOWN
from stream_masker.pipeline.paths import NOTHING, JsonValue, Path
from stream_masker.pipeline.plan import MAX_RECORD_ALPHA, AlphaSource, AttributePlan, NumericPlan
from stream_masker.pipeline.pseudonyms import Cache
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import Header
from stream_masker.pipeline.style import CANONICAL, STYLE_BITS, Codes, Labels, Style, StyleCounts, style_of

Refusals: TypeAlias = dict[int, tuple[Reason, str | None]]
"""The reason and the configured path for which documents are rejected, by their numbers."""

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


class Elements:
    """The records of a batch, or the elements that a ``[*]`` selects in each of the elements ``outer``.

    owners: the number of the outer element of each; number: that of the last one.
    """

    __slots__ = ("lists", "number", "outer", "owners")

    def __init__(self, outer: Elements | None = None) -> None:
        self.outer = outer
        self.start()

    def start(self) -> None:
        """Begin a batch."""
        self.owners: list[int] = []
        self.lists: list[int] = []
        self.number = -1

    def enter(self) -> None:
        """Note an element of the current outer element."""
        self.owners.append(-1 if self.outer is None else self.outer.number)
        self.number += 1

    def meet(self) -> None:
        """Note a list that the elements are in, also an empty one."""
        self.lists.append(-1 if self.outer is None else self.outer.number)

    def records(self) -> Int64Array:
        """Return the number of the record of each element."""
        if self.outer is None:
            return np.arange(self.number + 1)
        return self.outer.records()[np.array(self.owners, np.int64)]

    def records_with_lists(self) -> Int64Array:
        """Return the numbers of the records with a list that the elements are in."""
        return self.records() if self.outer is None else self.outer.records()[np.array(self.lists, np.int64)]

    def matched(self, others: Elements) -> Int64Array:
        """Return the number of the element among ``others`` at the same place as each of these, -1 for none: with the
        same rank in the same outer element."""
        if self is others:
            return np.arange(self.number + 1)
        if self.outer is None or others.outer is None:
            return np.full(self.number + 1, -1)
        own, theirs = np.array(self.owners, np.int64), np.array(others.owners, np.int64)
        owners = self.outer.matched(others.outer)[own]
        ranks = np.arange(len(own)) - np.searchsorted(own, own)
        numbers = np.searchsorted(theirs, owners) + ranks
        is_there = (owners >= 0) & (numbers < np.searchsorted(theirs, owners, side="right"))
        return np.where(is_there, numbers, -1)


Found: TypeAlias = list[tuple[Any, Any, int]]
"""Places of values: container, key, and the number of the element that the value belongs to."""


def _fill(found: Found, values: Sequence[Any]) -> None:
    """Write a value into each place."""
    for (container, key, _), value in zip(found, values, strict=True):
        container[key] = value


class Places:
    """The places of values at one path, noted while documents are treated."""

    __slots__ = ("elements", "found")

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self.start()

    def start(self) -> None:
        """Begin a batch."""
        self.found: Found = []

    def note(self, container: Any, key: Any) -> None:
        """Note a value, ``container[key]``."""
        self.found.append((container, key, self.elements.number))

    def texts(self) -> list[Any]:
        """Return the values."""
        return [container[key] for container, key, _ in self.found]

    def numbers(self) -> Int64Array:
        """Return the numbers of the elements."""
        return np.fromiter((number for _, _, number in self.found), np.int64, len(self.found))

    def texts_without_null(self) -> list[Any]:
        """Leave out the places of null, which stays null. Return the other values."""
        texts = self.texts()
        if None not in texts:
            return texts
        self.found = [place for place, text in zip(self.found, texts, strict=True) if text is not None]
        return [text for text in texts if text is not None]


@dataclass(frozen=True, slots=True)
class CodePlace:
    """One place of an attribute: of its codes, and of their labels and copies."""

    path: Path
    codes: Places
    labels: Sequence[Places]
    copies: Sequence[Places]

    @property
    def all(self) -> Iterator[Places]:
        """The places of all values."""
        yield from (self.codes, *self.labels, *self.copies)


class NominalValues:
    """The codes of an attribute, in all its places."""

    def __init__(self, plan: AttributePlan, places: Sequence[CodePlace]) -> None:
        self.plan = plan
        self.places = places
        self._is_optional = plan.missing == "keep"
        self._values = Cache(self._value)
        self._labels = _texts(Labels(plan.concepts.taxonomy.labels))
        self.set_style(CANONICAL)

    def set_style(self, style: Style) -> None:
        """Set the style in which codes are written from now on."""
        self._codes = _texts(Codes(self.plan.concepts, style))

    def read(self, refusals: Refusals) -> ReadCodes:
        """Return the codes of a batch. The records that lack one, or have an unknown one, are added to ``refusals``."""
        parts = [(self._of_place(place, refusals), place.codes.elements.records()) for place in self.places]
        if self.plan.is_array and not self._is_optional:
            self._refuse_without_lists(refusals)
        values, records = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(records, kind="stable")
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        starts = np.cumsum([0, *(len(part) for part, _ in parts)])
        fillings = [
            filling
            for place, start in zip(self.places, starts.tolist(), strict=False)
            for filling in self._fillings(place, ranks[start:])
        ]
        return ReadCodes(self.plan.is_array, values[order], records[order], fillings)

    def _of_place(self, place: CodePlace, refusals: Refusals) -> Int64Array:
        codes = place.codes
        texts = codes.texts_without_null() if self._is_optional else codes.texts()
        numbers = codes.numbers()
        values = np.full(codes.elements.number + 1, NO_CODE if self._is_optional else MISSING)
        values[numbers[::-1]] = self._looked_up(texts)[::-1]  # the first code of an element counts
        codes.texts_without_null()
        bad = np.flatnonzero(values < SUPPRESSED)
        for number, record in zip(bad.tolist(), codes.elements.records()[bad].tolist(), strict=True):
            refusals.setdefault(record, (_REASONS[int(values[number])], place.path.text))
        return values

    def _refuse_without_lists(self, refusals: Refusals) -> None:
        documents = self.places[0].codes.elements
        while documents.outer is not None:
            documents = documents.outer
        there = np.concatenate([place.codes.elements.records_with_lists() for place in self.places])
        for record in np.setdiff1d(documents.records(), there).tolist():
            refusals.setdefault(record, (Reason.MISSING, self.plan.path.text))

    def _fillings(self, place: CodePlace, ranks: Int64Array) -> Iterator[tuple[Found, Int64Array, Cache]]:
        """Yield the places to fill, with the numbers of their codes among all of the attribute, -1 for none."""
        yield place.codes.found, ranks[place.codes.numbers()], self._codes
        for others, texts in ((place.labels, self._labels), (place.copies, self._codes)):
            for one in others:
                one.texts_without_null()
                numbers = one.elements.matched(place.codes.elements)[one.numbers()]
                yield one.found, np.where(numbers < 0, -1, ranks[numbers]) if len(ranks) else numbers, texts

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


def _texts(written: Mapping[int, bytes]) -> Cache:
    return Cache(lambda position: None if position == ABSENT else orjson.loads(written[position]))


@dataclass(slots=True)
class ReadCodes:
    """The codes of an attribute in a batch: their values and records, in the order of the records.

    fillings: the places to fill, with the numbers of their codes, -1 for none, and the texts to write.
    """

    is_array: bool
    values: Int64Array
    records: Int64Array
    fillings: list[tuple[Found, Int64Array, Cache]]
    present: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))

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
        for found, numbers, texts in self.fillings:
            _fill(found, list(map(texts.__getitem__, positions[numbers].tolist())))


class NumericValues:
    """The numbers of an attribute, one in each record."""

    def __init__(self, plan: NumericPlan, places: Places) -> None:
        self.plan = plan
        self.places = places
        self._lower, self._upper = max(plan.kind.lower, -LARGEST_NUMBER), min(plan.kind.upper, LARGEST_NUMBER)

    def read(self, refusals: Refusals) -> ReadNumbers:
        """Return the numbers of a batch. The records without one that the attribute admits are added to
        ``refusals``."""
        if self.plan.missing == "keep":
            self.places.texts_without_null()
        first: dict[int, Any] = {}
        for container, key, number in self.places.found:
            first.setdefault(number, container[key])
        numbers = np.full(self.places.elements.number + 1, nan)
        for record in range(len(numbers)):
            value = first.get(record, NOTHING)
            if (reason := self._problem(value)) is not None:
                refusals.setdefault(record, (reason, self.plan.path.text))
            elif value is not NOTHING:
                numbers[record] = value
        self.places.texts_without_null()
        return ReadNumbers(numbers, self.places.found, self.plan.kind.integer)

    def _problem(self, value: Any) -> Reason | None:
        if value is NOTHING:
            return Reason.MISSING if self.plan.missing == "reject" else None
        if type(value) is not int and type(value) is not float:
            return Reason.NOT_A_NUMBER
        is_whole = type(value) is int or float(value).is_integer() or not self.plan.kind.integer
        return None if self._lower <= value <= self._upper and is_whole else Reason.NUMBER_OUT_OF_RANGE


@dataclass(frozen=True, slots=True)
class ReadNumbers:
    """The numbers of an attribute in a batch.

    values: one for each record, NaN for none; found: the places to fill; is_integer: whether all are whole numbers.
    """

    values: Float64Array
    found: Found
    is_integer: bool

    def write(self, masked: Float64Array) -> None:
        """Write the masked numbers; ``masked``: one for each record, NaN for none."""
        numbers = [masked[record] for _, _, record in self.found]
        _fill(self.found, [None if isnan(x) else int(x) if self.is_integer else float(x) for x in numbers])


_DECIMAL: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


def alpha_reader(source: AlphaSource) -> Callable[[JsonValue, Sequence[Header]], float]:
    """Return a function from the value at ``source.path``, or the headers of a record, to the record's alpha.

    It is in [``source.least``, 10], or NaN for a record without one, if there is no default. If several headers have
    the name, the last one counts. The function raises RecordRejectedError for a field or header that is not an alpha.
    """
    default = nan if source.default is None else source.default
    blamed = source.header if source.path is None else source.path.text

    def read(value: JsonValue, headers: Sequence[Header]) -> float:
        if source.path is None:
            named = [text for name, text in headers if name == source.header]
            value = (named[-1] or b"").decode("utf-8", "replace") if named else NOTHING
        if value is NOTHING:
            return default
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            value = float(value)
        if type(value) in (int, float) and source.least <= value <= MAX_RECORD_ALPHA:
            return float(value)
        raise RecordRejectedError(Reason.ALPHA_OUT_OF_RANGE, blamed)

    return read
