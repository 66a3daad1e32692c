"""Extraction of an attribute's codes from decoded records; numbered placeholders take their place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from stream_masker.pipeline.codec.attributes import (
    CODE_PLACEHOLDER,
    LABEL_PLACEHOLDER,
    NO_VALUE,
    PLACEHOLDER_SHIFT,
    AttributeCodec,
)
from stream_masker.pipeline.codec.columns import ExtractedColumn, array_column, scalar_column
from stream_masker.pipeline.codec.reference.matching import Matches, Slot
from stream_masker.pipeline.codec.reference.template import PLACEHOLDERS
from stream_masker.pipeline.codec.roles import LABEL_ROLE, Role
from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

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
    found = []
    for place in range(len(attribute.plan.places)):
        own = [n for n, role in enumerate(roles) if (role.attribute, role.place) == (attribute.number, place)]
        code, *others = own
        kinds = [LABEL_PLACEHOLDER if roles[n].kind == LABEL_ROLE else CODE_PLACEHOLDER for n in others]
        companions = [(n, roles[n].path, kind) for n, kind in zip(others, kinds, strict=True)]
        found.append(AttributePaths(code, roles[code].path, companions))
    return found


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

    def _value(self, found: Sequence[Slot], companions: CompanionSlots, number: int) -> int:
        """Return the value of a code's first slot, as value ``number``. Further slots are copies."""
        if not found or (found[0][0][found[0][1]] is None and self.attribute.plan.missing == "keep"):
            self._require_optional()
            _clear(companions)
            return NO_VALUE
        container, key = found[0]
        value = self.attribute.value(container[key])
        owner = (number * self.attribute.total + self.attribute.number) << PLACEHOLDER_SHIFT
        self._replace(found, value, owner | CODE_PLACEHOLDER)
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
        for paths, found in zip(self._places, lists, strict=True):
            with self._rejecting_at(paths.path):
                self._extract_place(matches, paths, found, values)
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
            own = companions.pop(position, ())
            values.append(self._value(element.slots_of(paths.number, paths.path), own, len(self.values) + len(values)))
        for surplus in companions.values():
            _clear(surplus)

    def _prefetch(self, number: int, elements: ElementList) -> None:
        if len(elements) >= MANY_CODES:
            slots = [found[0] for _, element in elements if (found := element.slots.get(number))]
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
        found: dict[ElementPosition, list[tuple[Sequence[Slot], int]]] = {}
        lists = [(paths.number, paths.path, CODE_PLACEHOLDER, further)]
        lists += [(n, path, kind, elements_of(matches, n, path)) for n, path, kind in paths.companions]
        for number, path, kind, own in lists:
            for position, element in chain.from_iterable(own):
                if slots := element.slots_of(number, path):
                    found.setdefault(position, []).append((slots, kind))
        return found


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
                own = first if rank == inner_rank == 0 else further
                own.extend(((k, *position), leaf) for position, leaf in inner)
    return [first, further] if is_present else []


def _clear(companions: Iterable[tuple[Sequence[Slot], int]]) -> None:
    for slots, _ in companions:
        for container, key in slots:
            container[key] = None
