"""Extraction of an attribute's codes from decoded records; numbered placeholders take their place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from stream_masker.pipeline.codec.attributes import (
    CODE_PLACEHOLDER,
    LABEL_PLACEHOLDER,
    NO_VALUE,
    PLACEHOLDER_SHIFT,
    AttributeCodec,
)
from stream_masker.pipeline.codec.columns import ExtractedColumn, array_column, scalar_column
from stream_masker.pipeline.codec.reference.matching import Slot, matching_slots
from stream_masker.pipeline.codec.reference.template import PLACEHOLDERS
from stream_masker.pipeline.paths import EachStep, JsonValue, Path, Step
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

CompanionSlots: TypeAlias = list[tuple[Sequence[Slot], int]]
"""The labels and copies of one code, with the kind of their placeholders."""


def extractor_for(attribute: AttributeCodec, placeholders: list[int]) -> AttributeExtractor:
    """An extractor for one batch, which appends to the batch's ``placeholders``."""
    return (ArrayExtractor if attribute.plan.is_array else ScalarExtractor)(attribute, placeholders)


class AttributeExtractor(ABC):
    """The values of one attribute in one batch: ``values``, one integer each (``codec.attributes``)."""

    def __init__(self, attribute: AttributeCodec, placeholders: list[int]) -> None:
        self.attribute = attribute
        self.values: list[int] = []
        self._placeholders = placeholders

    @abstractmethod
    def extract(self, document: dict[str, Any]) -> None:
        """Extracts a record's codes, or raises RecordRejectedError and leaves ``values`` unchanged.

        Placeholders replace the codes, their labels and their copies. Labels and copies without a code become null.
        """

    @abstractmethod
    def truncate(self, records: int) -> None:
        """Removes the values of all records but the first ``records``."""

    @abstractmethod
    def column(self) -> ExtractedColumn:
        """The values of all records."""

    def _value(self, found: Sequence[Slot], companions: CompanionSlots, number: int) -> int:
        """The value of a code's first slot, as value ``number``. Further slots are copies."""
        if not found or (found[0][0][found[0][1]] is None and self.attribute.plan.missing == "keep"):
            self._require_optional()
            _clear(companions)
            return NO_VALUE
        (container, key), *further = found
        value = self.attribute.value(container[key])
        owner = (number * self.attribute.total + self.attribute.number) << PLACEHOLDER_SHIFT
        self._replace(container, key, value, owner | CODE_PLACEHOLDER)
        for slots, kind in (*companions, (further, CODE_PLACEHOLDER)):
            for container, key in slots:
                self._replace(container, key, value, owner | kind)
        return value

    def _require_optional(self) -> None:
        if self.attribute.plan.missing == "reject":
            raise self.attribute.rejection(Reason.MISSING)

    def _replace(self, container: Any, key: Any, value: int, placeholder: int) -> None:
        """Puts a placeholder into a slot; null if the value is suppressed, or if the slot holds null."""
        if value < 0 or container[key] is None:
            container[key] = None
        else:
            container[key] = PLACEHOLDERS[len(self._placeholders)]
            self._placeholders.append(placeholder)


class ScalarExtractor(AttributeExtractor):
    """An attribute of one code a record."""

    def __init__(self, attribute: AttributeCodec, placeholders: list[int]) -> None:
        super().__init__(attribute, placeholders)
        self._find = matching_slots(attribute.plan.path)
        self._companions = [(matching_slots(path), kind) for path, kind in _companion_paths(attribute)]

    def extract(self, document: dict[str, Any]) -> None:
        companions: CompanionSlots = [(find(document), kind) for find, kind in self._companions]
        self.values.append(self._value(self._find(document), companions, len(self.values)))

    def truncate(self, records: int) -> None:
        del self.values[records:]

    def column(self) -> ExtractedColumn:
        return scalar_column(np.array(self.values, dtype=np.int64))


class ArrayExtractor(AttributeExtractor):
    """An attribute of any number of codes a record, one for each element of a list; ``lengths``: of these lists."""

    def __init__(self, attribute: AttributeCodec, placeholders: list[int]) -> None:
        super().__init__(attribute, placeholders)
        self.lengths: list[int] = []
        self._elements = _ElementPath(attribute.plan.path)
        self._companions = [(_ElementPath(path), kind) for path, kind in _companion_paths(attribute)]

    def extract(self, document: dict[str, Any]) -> None:
        lists = self._elements.lists(document)
        companions = self._companions_by_element(document, lists[1:])
        if not lists:
            self._require_optional()
        elements = lists[0] if lists else []
        start, inside = len(self.values), self._elements.inside
        values = [self._value(inside(elements, k), companions.pop(k, []), start + k) for k in range(len(elements))]
        for surplus in companions.values():
            _clear(surplus)
        self.values.extend(values)
        self.lengths.append(len(values))

    def truncate(self, records: int) -> None:
        del self.lengths[records:]
        del self.values[sum(self.lengths) :]

    def column(self) -> ExtractedColumn:
        return array_column(np.array(self.values, dtype=np.int64), np.array(self.lengths, dtype=np.int64))

    def _companions_by_element(
        self, document: dict[str, Any], further: Sequence[list[JsonValue]]
    ) -> dict[int, CompanionSlots]:
        """The labels and copies of each element; further lists that the attribute's own path selects hold copies."""
        found: dict[int, CompanionSlots] = {}
        for path, kind, elements in self._companion_lists(document, further):
            for k in range(len(elements)):
                found.setdefault(k, []).append((path.inside(elements, k), kind))
        return found

    def _companion_lists(
        self, document: dict[str, Any], further: Sequence[list[JsonValue]]
    ) -> Iterator[tuple[_ElementPath, int, list[JsonValue]]]:
        for elements in further:
            yield self._elements, CODE_PLACEHOLDER, elements
        for path, kind in self._companions:
            for elements in path.lists(document):
                yield path, kind, elements


class _ElementPath:
    """A path with a ``[*]``: the lists that it goes through, and the slots that it selects in their elements."""

    def __init__(self, path: Path) -> None:
        outer, inner = _split(path)
        self._path = path
        self._find_lists = matching_slots(path, outer)
        self._find_inside = matching_slots(path, inner) if inner else None

    def lists(self, document: dict[str, Any]) -> list[list[JsonValue]]:
        """The lists that ``[*]`` stands for; nulls are left out."""
        found = [container[key] for container, key in self._find_lists(document)]
        if not all(type(elements) is list or elements is None for elements in found):
            raise RecordRejectedError(Reason.WRONG_SHAPE, self._path.text)
        return [elements for elements in found if elements is not None]

    def inside(self, elements: list[JsonValue], k: int) -> Sequence[Slot]:
        """The slots in element k."""
        return ((elements, k),) if self._find_inside is None else self._find_inside(elements[k])


def _split(path: Path) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps before and after ``[*]``."""
    at = path.steps.index(EachStep())
    return path.steps[:at], path.steps[at + 1 :]


def _companion_paths(attribute: AttributeCodec) -> Iterator[tuple[Path, int]]:
    if attribute.plan.label is not None:
        yield attribute.plan.label, LABEL_PLACEHOLDER
    for path in attribute.plan.copies:
        yield path, CODE_PLACEHOLDER


def _clear(companions: Iterable[tuple[Sequence[Slot], int]]) -> None:
    for slots, _ in companions:
        for container, key in slots:
            container[key] = None
