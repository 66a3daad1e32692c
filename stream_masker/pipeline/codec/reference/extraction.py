"""Reading attributes' codes out of decoded records, leaving numbered gaps in their places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from stream_masker.pipeline.codec.attributes import (
    CODE_PLACEHOLDER,
    LABEL_PLACEHOLDER,
    NO_VALUE,
    PLACEHOLDER_SHIFT,
    AttributeCodec,
)
from stream_masker.pipeline.codec.reference.columns import ExtractedColumn, array_column, scalar_column
from stream_masker.pipeline.codec.reference.matching import Slot, descend, listed_elements, matching_slots
from stream_masker.pipeline.codec.reference.template import PLACEHOLDERS
from stream_masker.pipeline.paths import EachStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.plan import AttributePlan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.style import OWN_CASE, letter_case

ReadDocument: TypeAlias = Callable[[dict[str, Any]], None]
CompanionSlot: TypeAlias = tuple[Any, Any, bool]
"""Where something stands that belongs to a code: container, key, and whether it is a label (else a copy)."""


def extractor_for(attribute: AttributeCodec, gaps: list[int]) -> AttributeExtractor:
    """A ledger for one batch, whose gaps it appends to ``gaps``."""
    return (ArrayExtractor if attribute.plan.is_array else ScalarExtractor)(attribute, gaps)


class AttributeExtractor(ABC):
    """What was read of one attribute in one batch: ``values``, one integer each."""

    def __init__(self, attribute: AttributeCodec, gaps: list[int]) -> None:
        self.attribute = attribute
        self.values: list[int] = []
        self._gaps = gaps

    @abstractmethod
    def reader(self) -> ReadDocument:
        """A function that reads a record's codes, or raises Unfit and then notes nothing.

        It leaves gaps in the place of codes and of what belongs to them, and blanks what belongs to no code.
        """

    @abstractmethod
    def cut_back(self, records: int) -> None:
        """Forgets all but the first records."""

    @abstractmethod
    def gather(self) -> ExtractedColumn:
        """What was read."""

    def _settle(self, found: Sequence[Slot], asides: Sequence[CompanionSlot], number: int) -> int:
        """The value of the first slot, as value ``number``; further slots are treated as copies."""
        if not found or self._is_absent(*found[0]):
            self._absent(asides)
            return NO_VALUE
        (container, key), *further = found
        value = self.attribute.value(container[key])
        self._replace(value, [(container, key, CODE_PLACEHOLDER)], number)
        copies = [*asides, *((*slot, False) for slot in further)]
        self._replace(value, [(c, k, self.attribute.aside(c[k], is_label=label)) for c, k, label in copies], number)
        return value

    def _is_absent(self, container: Any, key: Any) -> bool:
        return container[key] is None and self.attribute.plan.missing == "keep"

    def _absent(self, asides: Iterable[CompanionSlot]) -> None:
        if self.attribute.plan.missing == "reject":
            raise self.attribute.unfit(Reason.MISSING)
        _blank(asides)

    def _replace(self, value: int, places: Iterable[tuple[Any, Any, int]], number: int) -> None:
        """Leaves a gap, of the given kind and style, in each place; null where the value is suppressed, or was null."""
        base = (number * self.attribute.total + self.attribute.number) << PLACEHOLDER_SHIFT
        for container, key, kind in places:
            if value < 0 or container[key] is None:
                container[key] = None
            else:
                container[key] = PLACEHOLDERS[len(self._gaps)]
                self._gaps.append(base | kind)

    def _leave(self) -> Callable[[Any, Any, int], None]:
        """A fast function that leaves gaps for a code and the label beside it, given their container."""
        total, offset, beside, gaps = self.attribute.total, self.attribute.number, self.attribute.beside, self._gaps

        def leave(container: Any, key: Any, number: int) -> None:
            base = (number * total + offset) << PLACEHOLDER_SHIFT
            container[key] = PLACEHOLDERS[len(gaps)]
            gaps.append(base)
            label = None if beside is None else container.get(beside)
            if label is not None:
                container[beside] = PLACEHOLDERS[len(gaps)]
                gaps.append(base | LABEL_PLACEHOLDER | (letter_case(label) if type(label) is str else OWN_CASE))

        return leave


class ScalarExtractor(AttributeExtractor):
    """Of an attribute of one code a record: as many values as records."""

    def __init__(self, attribute: AttributeCodec, gaps: list[int]) -> None:
        super().__init__(attribute, gaps)
        self._find = matching_slots(attribute.plan.path)
        self._asides = [(matching_slots(path), is_label) for path, is_label in _asides(attribute.plan)]

    def reader(self) -> ReadDocument:
        *way, last = self.attribute.plan.path.steps
        if not isinstance(last, NameStep) or not self.attribute.simple:
            return self._read
        walk, key, leave = descend(way), last.key, self._leave()
        known, values, slowly = self.attribute.known, self.values, self._read

        def read(document: dict[str, Any]) -> None:
            try:
                container = walk(document)
                value = known[container[key]]
            except (KeyError, TypeError):
                slowly(document)
            else:
                leave(container, key, len(values))
                values.append(value)

        return read

    def cut_back(self, records: int) -> None:
        del self.values[records:]

    def gather(self) -> ExtractedColumn:
        return scalar_column(np.array(self.values, dtype=np.int64))

    def _read(self, document: dict[str, Any]) -> None:
        asides = [(*slot, is_label) for find, is_label in self._asides for slot in find(document)]
        self.values.append(self._settle(self._find(document), asides, len(self.values)))


class ArrayExtractor(AttributeExtractor):
    """Of an attribute of any number of codes a record, one for each element of a list; ``lengths``: their numbers."""

    def __init__(self, attribute: AttributeCodec, gaps: list[int]) -> None:
        super().__init__(attribute, gaps)
        self.lengths: list[int] = []
        self._rows = _Rows(attribute.plan.path)
        self._asides = [(_Rows(path), is_label) for path, is_label in _asides(attribute.plan)]

    def reader(self) -> ReadDocument:
        around, inside = _split(self.attribute.plan.path)
        if (inside and not isinstance(inside[-1], NameStep)) or not self.attribute.simple:
            return self._read
        to_list, places, leave = descend(around), _places(inside), self._leave()
        known, slowly = self.attribute.known, self._read

        def read(document: dict[str, Any]) -> None:
            try:
                found = places(listed_elements(to_list(document)))
                values = [known[container[key]] for container, key in found]
            except (KeyError, TypeError):
                slowly(document)
            else:
                for number, (container, key) in enumerate(found, start=len(self.values)):
                    leave(container, key, number)
                self._note(values)

        return read

    def cut_back(self, records: int) -> None:
        del self.lengths[records:]
        del self.values[sum(self.lengths) :]

    def gather(self) -> ExtractedColumn:
        return array_column(np.array(self.values, dtype=np.int64), np.array(self.lengths, dtype=np.int64))

    def _note(self, values: Sequence[int]) -> None:
        self.values.extend(values)
        self.lengths.append(len(values))

    def _read(self, document: dict[str, Any]) -> None:
        lists = self._rows.lists(document)
        asides = self._asides_by_element(document, lists[1:])
        if not lists:
            self._absent(aside for element in asides.values() for aside in element)
        elements = lists[0] if lists else []
        numbered = enumerate(range(len(elements)), start=len(self.values))
        self._note([self._settle(self._rows.inside(elements, k), asides.pop(k, ()), n) for n, k in numbered])
        _blank(aside for element in asides.values() for aside in element)

    def _asides_by_element(
        self, document: dict[str, Any], further: Sequence[list[JsonValue]]
    ) -> dict[int, list[CompanionSlot]]:
        found: dict[int, list[CompanionSlot]] = {}
        sources = [(self._rows, False, elements) for elements in further]
        sources += [(rows, is_label, e) for rows, is_label in self._asides for e in rows.lists(document)]
        for rows, is_label, elements in sources:
            for k in range(len(elements)):
                found.setdefault(k, []).extend((*slot, is_label) for slot in rows.inside(elements, k))
        return found


class _Rows:
    """A path with a ``[*]``: the lists that it goes through, and what it selects inside an element."""

    def __init__(self, path: Path) -> None:
        around, inside = _split(path)
        self._path = path
        self._lists = matching_slots(path, around)
        self._inside = matching_slots(path, inside) if inside else None

    def lists(self, document: dict[str, Any]) -> list[list[JsonValue]]:
        found = [container[key] for container, key in self._lists(document)]
        if not all(type(elements) is list or elements is None for elements in found):
            raise RecordRejectedError(Reason.WRONG_SHAPE, self._path.text)
        return [elements for elements in found if elements is not None]

    def inside(self, elements: list[JsonValue], k: int) -> list[Slot]:
        return [(elements, k)] if self._inside is None else self._inside(elements[k])


def _places(inside: Sequence[Step]) -> Callable[[list[JsonValue]], list[Slot]]:
    """A fast function from a list to where each element's code stands."""
    if not inside:
        return lambda elements: [(elements, position) for position in range(len(elements))]
    *way, last = inside
    walk, key = descend(way), last.key if isinstance(last, NameStep) else None
    return lambda elements: [(walk(element), key) for element in elements]


def _split(path: Path) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    at = path.steps.index(EachStep())
    return path.steps[:at], path.steps[at + 1 :]


def _asides(plan: AttributePlan) -> list[tuple[Path, bool]]:
    label = [] if plan.label is None else [(plan.label, True)]
    return [*label, *((path, False) for path in plan.copies)]


def _blank(asides: Iterable[CompanionSlot]) -> None:
    for container, key, _ in asides:
        container[key] = None
