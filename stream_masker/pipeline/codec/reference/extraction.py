"""Extraction of an attribute's codes from decoded records; numbered placeholders take their place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from stream_masker.pipeline.codec.reference.matching import Matches, Slot
from stream_masker.pipeline.codec.reference.template import PLACEHOLDERS
from stream_masker.pipeline.codec.roles import LABEL_ROLE, Role
from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.reasons import Reason

CompanionSlots: TypeAlias = list[tuple[Sequence[Slot], int]]
"""The labels and copies of one code, with the kind of their placeholders."""


@dataclass(frozen=True, slots=True)
class AttributePaths:
    """The paths of an attribute: of its codes, and of its labels and copies with the kind of their placeholders.

    Each path has its number in the trie of roles.
    """

    number: int
    path: Path
    companions: Sequence[tuple[int, Path, int]]

    @classmethod
    def of(cls, attribute: AttributeCodec, roles: Sequence[Role]) -> AttributePaths:
        """The paths of an attribute among all roles of a plan."""
        (code, path), *others = [(n, role.path) for n, role in enumerate(roles) if role.attribute == attribute.number]
        kinds = [LABEL_PLACEHOLDER if roles[n].kind == LABEL_ROLE else CODE_PLACEHOLDER for n, _ in others]
        return cls(code, path, [(n, other, kind) for (n, other), kind in zip(others, kinds, strict=True)])


def extractor_for(attribute: AttributeCodec, paths: AttributePaths, placeholders: list[int]) -> AttributeExtractor:
    """An extractor for one batch, which appends to the batch's ``placeholders``."""
    return (ArrayExtractor if attribute.plan.is_array else ScalarExtractor)(attribute, paths, placeholders)


class AttributeExtractor(ABC):
    """The values of one attribute in one batch: ``values``, one integer each (``codec.attributes``)."""

    def __init__(self, attribute: AttributeCodec, paths: AttributePaths, placeholders: list[int]) -> None:
        self.attribute = attribute
        self.values: list[int] = []
        self._paths = paths
        self._placeholders = placeholders

    @abstractmethod
    def extract(self, matches: Matches) -> None:
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

    def extract(self, matches: Matches) -> None:
        paths = self._paths
        companions: CompanionSlots = [(matches.slots_of(n, path), kind) for n, path, kind in paths.companions]
        self.values.append(self._value(matches.slots_of(paths.number, paths.path), companions, len(self.values)))

    def truncate(self, records: int) -> None:
        del self.values[records:]

    def column(self) -> ExtractedColumn:
        return scalar_column(np.array(self.values, dtype=np.int64))


class ArrayExtractor(AttributeExtractor):
    """An attribute of any number of codes a record, one for each element of a list; ``lengths``: of these lists."""

    def __init__(self, attribute: AttributeCodec, paths: AttributePaths, placeholders: list[int]) -> None:
        super().__init__(attribute, paths, placeholders)
        self.lengths: list[int] = []

    def extract(self, matches: Matches) -> None:
        number, path = self._paths.number, self._paths.path
        lists = matches.lists_of(number, path)
        companions = self._companions_by_element(matches, lists[1:])
        if not lists:
            self._require_optional()
        elements = lists[0] if lists else []
        start = len(self.values)
        values = [
            self._value(element.slots_of(number, path), companions.pop(k, []), start + k)
            for k, element in enumerate(elements)
        ]
        for surplus in companions.values():
            _clear(surplus)
        self.values.extend(values)
        self.lengths.append(len(values))

    def truncate(self, records: int) -> None:
        del self.lengths[records:]
        del self.values[sum(self.lengths) :]

    def column(self) -> ExtractedColumn:
        return array_column(np.array(self.values, dtype=np.int64), np.array(self.lengths, dtype=np.int64))

    def _companions_by_element(self, matches: Matches, further: Sequence[list[Matches]]) -> dict[int, CompanionSlots]:
        """The labels and copies of each element; further lists that the attribute's own path selects hold copies."""
        found: dict[int, CompanionSlots] = {}
        for number, path, kind, elements in self._companion_lists(matches, further):
            for k, element in enumerate(elements):
                found.setdefault(k, []).append((element.slots_of(number, path), kind))
        return found

    def _companion_lists(
        self, matches: Matches, further: Sequence[list[Matches]]
    ) -> Iterator[tuple[int, Path, int, list[Matches]]]:
        for elements in further:
            yield self._paths.number, self._paths.path, CODE_PLACEHOLDER, elements
        for number, path, kind in self._paths.companions:
            for elements in matches.lists_of(number, path):
                yield number, path, kind, elements


def _clear(companions: Iterable[tuple[Sequence[Slot], int]]) -> None:
    for slots, _ in companions:
        for container, key in slots:
            container[key] = None
