"""Extraction of codes and numbers from decoded records; numbered placeholders take their place.

The JSON to write is split at the placeholders and filled in once the whole batch is masked, so that a decoded record
exists only while it is read. A placeholder is a string that no record contains: it begins with a random mark of this
process.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import nan
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import orjson

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import LARGEST_NUMBER
from stream_masker.pipeline.codec.attributes import (
    CODE_PLACEHOLDER,
    LABEL_PLACEHOLDER,
    NO_VALUE,
    PLACEHOLDER_SHIFT,
    AttributeCodec,
    ExtractedColumn,
    array_column,
    scalar_column,
)
from stream_masker.pipeline.codec.numbers import json_number
from stream_masker.pipeline.codec.reference.matching import Matches, Slot
from stream_masker.pipeline.codec.roles import LABEL_ROLE, Role
from stream_masker.pipeline.paths import JsonValue, Path
from stream_masker.pipeline.plan import NumericPlan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

_MARK: Final = secrets.token_hex(12)
_SEPARATOR: Final = b'"' + _MARK.encode()
_DIGITS: Final = 9
_KEPT: Final = 1 << 17


class PlaceholderTexts(dict[int, str]):
    """The text of placeholder number n, from 0 on, created on first use. The first ``_KEPT`` texts are kept."""

    def __missing__(self, number: int) -> str:
        text = f"{_MARK}{number:0{_DIGITS}d}"
        if number < _KEPT:
            self[number] = text
        return text


PLACEHOLDERS: Final = PlaceholderTexts()


def split_template(document: dict[str, Any]) -> list[bytes]:
    """Return a document's JSON, split at its placeholders: the text before the first one, then each with the text after
    it."""
    return orjson.dumps(document).split(_SEPARATOR)


def fill_template(pieces: Sequence[bytes], texts: Sequence[bytes]) -> bytes:
    """Return the JSON of a document that was split; ``texts[n]``, also JSON, replaces placeholder number n."""
    filled = [pieces[0]]
    for piece in pieces[1:]:
        filled.append(texts[int(piece[:_DIGITS])])
        filled.append(piece[_DIGITS + 1 :])
    return b"".join(filled)


class NumericCodec:
    """One numeric attribute of a plan, ``number`` of the ``total`` attributes of both kinds."""

    def __init__(self, plan: NumericPlan, number: int, total: int, role: int) -> None:
        """role: the number of the attribute's path in the trie of roles."""
        self.plan = plan
        self.number = number
        self.total = total
        self._role = role
        self._lower, self._upper = max(plan.kind.lower, -LARGEST_NUMBER), min(plan.kind.upper, LARGEST_NUMBER)

    def extract(self, matches: Matches, column: list[float], placeholders: list[int]) -> None:
        """Append a record's number (NaN for none) to ``column``; placeholders replace it in the record.

        Raises RecordRejectedError, and appends nothing, for anything but a number that the attribute admits. A text
        that holds a number is not a number.
        """
        slots = matches.slots_of(self._role, self.plan.path)
        value = self._value([container[key] for container, key in slots])
        placeholder = (len(column) * self.total + self.number) << PLACEHOLDER_SHIFT
        for container, key in slots:
            if container[key] is not None:
                container[key] = PLACEHOLDERS[len(placeholders)]
                placeholders.append(placeholder)
        column.append(value)

    def _value(self, values: Sequence[JsonValue]) -> float:
        if not values:
            return self._absent(Reason.MISSING)
        if values[0] is None:
            for further in values:
                self._require_null(further)
            return self._absent(Reason.NOT_A_NUMBER)
        return self._number(values[0])

    def _absent(self, reason: Reason) -> float:
        if self.plan.missing == "reject":
            raise self._rejection(reason)
        return nan

    def _require_null(self, value: JsonValue) -> None:
        """Reject a further match that is not null. If the first match is null, no other match may contain a number."""
        if value is not None:
            raise self._rejection(Reason.NOT_A_NUMBER)

    def _number(self, value: JsonValue) -> float:
        if type(value) not in (int, float):
            raise self._rejection(Reason.NOT_A_NUMBER)
        number = float(value)
        if not self._lower <= number <= self._upper or (self.plan.kind.integer and not number.is_integer()):
            raise self._rejection(Reason.NUMBER_OUT_OF_RANGE)
        return number

    def _rejection(self, reason: Reason) -> RecordRejectedError:
        return RecordRejectedError(reason, self.plan.path.text)


def as_matrix(columns: Sequence[Sequence[float]]) -> Float64Array | None:
    """Return q columns as (n, q) float64; None if q = 0."""
    return np.array(columns, dtype=np.float64).T.copy() if columns else None


def fill_numbers(
    texts: list[bytes], placeholders: Sequence[int], attributes: Sequence[NumericCodec], masked: Float64Array | None
) -> None:
    """Set the texts of all placeholders of numbers to the masked numbers, as JSON."""
    if masked is None:
        return
    records, owners = np.divmod(np.array(placeholders, dtype=np.int64) >> PLACEHOLDER_SHIFT, attributes[0].total)
    for attribute, column in zip(attributes, masked.T.tolist(), strict=True):
        indices = np.flatnonzero(owners == attribute.number)
        for placeholder, record in zip(indices.tolist(), records[indices].tolist(), strict=True):
            texts[placeholder] = json_number(column[record], attribute.plan.kind)


ElementPosition: TypeAlias = tuple[int, ...]
"""The positions of an element in its list and in the lists around it, the outermost first."""

ElementList: TypeAlias = list[tuple[ElementPosition, Matches]]
"""The elements of a list, or of lists in lists: their positions, and what the paths select in them."""

CompanionSlots: TypeAlias = Sequence[tuple[Sequence[Slot], int]]
"""The labels and copies of one code, with the kind of their placeholders."""


MANY_CODES: Final = 16
CODES_TOGETHER: Final = 64
"""The least and the greatest number of codes of an array that are looked up together. The first unknown code may reject
the record, so that the rest need not be looked up."""


class AttributePaths(NamedTuple):
    """The paths of one place of an attribute: of its codes, and of their labels and copies.

    Each path has its number in the trie of roles; labels and copies have the kind of their placeholders.
    """

    number: int
    path: Path
    companions: Sequence[tuple[int, Path, int]]


def places_of(attribute: AttributeCodec, roles: Sequence[Role]) -> list[AttributePaths]:
    """Return the paths of each place of an attribute, among all roles of a plan."""
    places = []
    for place in range(len(attribute.plan.places)):
        numbers = [n for n, role in enumerate(roles) if (role.attribute, role.place) == (attribute.number, place)]
        code, *others = numbers
        kinds = [LABEL_PLACEHOLDER if roles[n].kind == LABEL_ROLE else CODE_PLACEHOLDER for n in others]
        companions = [(n, roles[n].path, kind) for n, kind in zip(others, kinds, strict=True)]
        places.append(AttributePaths(code, roles[code].path, companions))
    return places


def extractor_for(
    attribute: AttributeCodec, places: Sequence[AttributePaths], placeholders: list[int]
) -> AttributeExtractor:
    """Return an extractor for one batch, which appends to ``placeholders`` of the batch."""
    return (ArrayExtractor if attribute.plan.is_array else ScalarExtractor)(attribute, places, placeholders)


class AttributeExtractor(ABC):
    """The values of one attribute in one batch: ``values``, one integer each (``codec.attributes``)."""

    def __init__(self, attribute: AttributeCodec, places: Sequence[AttributePaths], placeholders: list[int]) -> None:
        self.attribute = attribute
        self.values: list[int] = []
        self._places = places
        self._placeholders = placeholders

    @abstractmethod
    def extract(self, matches: Matches) -> None:
        """Extract a record's codes, or raise RecordRejectedError and leave ``values`` unchanged.

        Placeholders replace the codes, their labels and their copies. Labels and copies without a code become null.
        """

    @abstractmethod
    def truncate(self, records: int) -> None:
        """Remove the values of all records but the first ``records``."""

    @abstractmethod
    def column(self) -> ExtractedColumn:
        """Return the values of all records."""

    def _value(self, code_slots: Sequence[Slot], companions: CompanionSlots, number: int) -> int:
        """Return the value of the first slot with a code, as value ``number``. Further slots are copies.

        With ``missing: keep``, a slot that holds null has no code.
        """
        if self.attribute.plan.missing == "keep":
            code_slots = [(container, key) for container, key in code_slots if container[key] is not None]
        if not code_slots:
            self._require_optional()
            _clear(companions)
            return NO_VALUE
        container, key = code_slots[0]
        value = self.attribute.value(container[key])
        owner = (number * self.attribute.total + self.attribute.number) << PLACEHOLDER_SHIFT
        self._replace(code_slots, value, owner | CODE_PLACEHOLDER)
        for slots, kind in companions:
            self._replace(slots, value, owner | kind)
        return value

    def _require_optional(self) -> None:
        if self.attribute.plan.missing == "reject":
            raise self.attribute.rejection(Reason.MISSING)

    def _replace(self, slots: Sequence[Slot], value: int, placeholder: int) -> None:
        """Put placeholders into slots; put null if the value is suppressed, or where a slot holds null."""
        for container, key in slots:
            if value < 0 or container[key] is None:
                container[key] = None
            else:
                container[key] = PLACEHOLDERS[len(self._placeholders)]
                self._placeholders.append(placeholder)


class ScalarExtractor(AttributeExtractor):
    """An attribute with one code per record."""

    def extract(self, matches: Matches) -> None:
        (paths,) = self._places
        companions: CompanionSlots = [(matches.slots_of(n, path), kind) for n, path, kind in paths.companions]
        self.values.append(self._value(matches.slots_of(paths.number, paths.path), companions, len(self.values)))

    def truncate(self, records: int) -> None:
        del self.values[records:]

    def column(self) -> ExtractedColumn:
        return scalar_column(np.array(self.values, dtype=np.int64))


class ArrayExtractor(AttributeExtractor):
    """An attribute with any number of codes per record, one for each element of a list; ``lengths``: those of the
    lists."""

    def __init__(self, attribute: AttributeCodec, places: Sequence[AttributePaths], placeholders: list[int]) -> None:
        super().__init__(attribute, places, placeholders)
        self.lengths: list[int] = []

    def extract(self, matches: Matches) -> None:
        values: list[int] = []
        lists = [elements_of(matches, paths.number, paths.path) for paths in self._places]
        if not any(lists):
            self._require_optional()
        for paths, place_lists in zip(self._places, lists, strict=True):
            with self._rejecting_at(paths.path):
                self._extract_place(matches, paths, place_lists, values)
        self.values.extend(values)
        self.lengths.append(len(values))

    def _extract_place(
        self, matches: Matches, paths: AttributePaths, lists: Sequence[ElementList], values: list[int]
    ) -> None:
        """Append the values of one place. lists: those of its codes; all but the first list hold copies."""
        companions = self._companions_by_element(matches, paths, lists[1:])
        elements = lists[0] if lists else []
        for k, (position, element) in enumerate(elements):
            if k % CODES_TOGETHER == 0:
                self._prefetch(paths.number, elements[k : k + CODES_TOGETHER])
            slots = element.slots_of(paths.number, paths.path)
            values.append(self._value(slots, companions.pop(position, ()), len(self.values) + len(values)))
        for surplus in companions.values():
            _clear(surplus)

    def _prefetch(self, number: int, elements: ElementList) -> None:
        if len(elements) >= MANY_CODES:
            slots = [matched[0] for _, element in elements if (matched := element.slots.get(number))]
            self.attribute.prefetch([container[key] for container, key in slots])

    @contextmanager
    def _rejecting_at(self, path: Path) -> Iterator[None]:
        """Name a further place's own path in the rejections of its codes."""
        first = self.attribute.plan.path.text
        try:
            yield
        except RecordRejectedError as error:
            if error.field != first or path.text == first:
                raise
            raise RecordRejectedError(error.reason, path.text) from None

    def truncate(self, records: int) -> None:
        surplus = sum(self.lengths[records:])
        del self.lengths[records:]
        del self.values[len(self.values) - surplus :]

    def column(self) -> ExtractedColumn:
        return array_column(np.array(self.values, dtype=np.int64), np.array(self.lengths, dtype=np.int64))

    def _companions_by_element(
        self, matches: Matches, paths: AttributePaths, further: Sequence[ElementList]
    ) -> dict[ElementPosition, list[tuple[Sequence[Slot], int]]]:
        """Return the labels and copies of each element; further lists that the place's own path selects hold copies."""
        companions: dict[ElementPosition, list[tuple[Sequence[Slot], int]]] = {}
        lists = [(paths.number, paths.path, CODE_PLACEHOLDER, further)]
        lists += [(n, path, kind, elements_of(matches, n, path)) for n, path, kind in paths.companions]
        for number, path, kind, element_lists in lists:
            for position, element in chain.from_iterable(element_lists):
                if slots := element.slots_of(number, path):
                    companions.setdefault(position, []).append((slots, kind))
        return companions


def elements_of(matches: Matches, number: int, path: Path) -> list[ElementList]:
    """Return the lists that a path with a ``[*]`` stands for, with its innermost elements and their positions.

    Among lists in lists, the first one at each level is the path's own, and further ones hold copies. Raises like
    ``Matches.lists_of``.
    """
    return _elements(matches, number, path, path.arrays)


def _elements(matches: Matches, number: int, path: Path, levels: int) -> list[ElementList]:
    lists = matches.lists_of(number, path)
    if levels == 1:
        return [list(zip(zip(range(len(elements))), elements, strict=True)) for elements in lists]
    first: ElementList = []
    further: ElementList = []
    is_present = False
    for rank, elements in enumerate(lists):
        for k, element in enumerate(elements):
            for inner_rank, inner in enumerate(_elements(element, number, path, levels - 1)):
                is_present = True
                target = first if rank == inner_rank == 0 else further
                target.extend(((k, *position), leaf) for position, leaf in inner)
    return [first, further] if is_present else []


def _clear(companions: Iterable[tuple[Sequence[Slot], int]]) -> None:
    for slots, _ in companions:
        for container, key in slots:
            container[key] = None
