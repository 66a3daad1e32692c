"""Reading attributes' codes out of decoded records, leaving numbered gaps in their places.

Long-lived is the ``Attribute``, with its caches; of one batch is its ``Ledger``, which holds what was read. The gaps
of all attributes are numbered together, in one list: what a gap is for is one integer (``Gap``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Column, MaskedBatch
from stream_masker.core.ontology import UNKNOWN
from stream_masker.pipeline.paths import Each, Json, Name, Path, Step
from stream_masker.pipeline.plan import AttributePlan
from stream_masker.pipeline.reasons import Reason, Unfit
from stream_masker.pipeline.stencil import GAPS
from stream_masker.pipeline.style import OWN_CASE, STYLE_BITS, Codes, Labels, borrow, letter_case, shown, style_of
from stream_masker.pipeline.walk import Slot, descend, listed, slots

Ints: TypeAlias = NDArray[np.int64]
Read: TypeAlias = Callable[[dict[str, Any]], None]
Aside: TypeAlias = tuple[Any, Any, bool]
"""Where something stands that belongs to a code: container, key, and whether it is a label (else a copy)."""

SHIFT: Final = STYLE_BITS + 1
UNLISTED: Final = 1 << STYLE_BITS
STYLE: Final = UNLISTED - 1
NOTHING: Final = -1 << SHIFT
SUPPRESSED: Final = NOTHING | UNLISTED
"""A value as one integer: ``position << SHIFT | UNLISTED (known by a prefix only) | style``; or one of these two."""

CODE: Final = 0
COPY: Final = 1 << STYLE_BITS
LABEL: Final = 2 << STYLE_BITS
KIND: Final = COPY | LABEL
GAP_SHIFT: Final = STYLE_BITS + 2
"""A gap: ``(value's number · attributes + attribute) << GAP_SHIFT | kind | style``; a code's style is its value's."""

CACHED_TEXTS: Final = 200_000


class Attribute:
    """One attribute of a plan, ``number`` of ``total``: how its texts are understood and written."""

    def __init__(self, plan: AttributePlan, number: int, total: int) -> None:
        self.plan = plan
        self.number = number
        self.total = total
        self.known: dict[str, int] = {}
        self.codes = Codes(plan.concepts)
        self.labels = Labels(plan.concepts.taxonomy.labels)
        self.beside = _key_beside(plan)
        self.simple = not plan.copies and (plan.label is None or self.beside is not None)
        self._ids = plan.concepts.taxonomy.ids

    def ledger(self, gaps: list[int]) -> Ledger:
        """A ledger for one batch, whose gaps it appends to ``gaps``."""
        return (ArrayLedger if self.plan.is_array else ScalarLedger)(self, gaps)

    def value(self, text: Json) -> int:
        """A text as a value. Raises Unfit when it is no code."""
        if type(text) is not str:
            raise self.unfit(Reason.NOT_A_CODE)
        known = self.known.get(text)
        return self._look_up(text) if known is None else known

    def _look_up(self, text: str) -> int:
        if not text or text.isspace():
            raise self.unfit(Reason.EMPTY)
        match = self.plan.concepts.find(text)
        if match.position == UNKNOWN:
            return self._unknown()
        style = style_of(text, self._ids[match.position], match.how)
        return self._remember(text, match.position << SHIFT | (UNLISTED if match.how == "ancestor" else 0) | style)

    def _unknown(self) -> int:
        if self.plan.concepts.unknown != "suppress":
            raise self.unfit(Reason.UNKNOWN_CODE)
        return SUPPRESSED

    def _remember(self, text: str, value: int) -> int:
        if len(self.known) >= CACHED_TEXTS:
            self.known.clear()
        self.known[text] = value
        return value

    def aside(self, text: Json, *, is_label: bool) -> int:
        """The kind and style of what is to replace a label or a copy that reads so."""
        if is_label:
            return LABEL | (letter_case(text) if type(text) is str else OWN_CASE)
        match = self.plan.concepts.find(text) if type(text) is str else None
        if match is None or match.position == UNKNOWN:
            return CODE
        return COPY | style_of(text, self._ids[match.position], match.how)

    def unfit(self, reason: Reason) -> Unfit:
        """The exception that blames this attribute."""
        return Unfit(reason, self.plan.path.text)


@dataclass(frozen=True, slots=True)
class Reading:
    """One attribute of n records: their codes as a column, and more of each of the m values that were looked at.

    there: (m,) bool, the values that are in the column; styles: (m,) int64; rows: (m,) int64, each value's record;
    unknown: how many values found no concept; lost: how many of these are not in the column.
    """

    column: Column
    there: NDArray[np.bool_]
    styles: Ints
    rows: Ints
    unknown: int
    lost: int


def scalar_reading(values: Ints) -> Reading:
    """The reading of an attribute of one value a record."""
    column = Column((values >> SHIFT).astype(np.int32))
    return Reading(column, values >= 0, values & STYLE, np.arange(len(values)), _unknown(values), _lost(values))


def array_reading(values: Ints, lengths: Ints) -> Reading:
    """The reading of an attribute of as many values a record as ``lengths`` says."""
    there = values >= 0
    rows = np.repeat(np.arange(len(lengths)), lengths)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(rows[there], minlength=len(lengths))))).astype(np.int64)
    column = Column((values[there] >> SHIFT).astype(np.int32), offsets)
    return Reading(column, there, values & STYLE, rows, _unknown(values), _lost(values))


def masked_positions(reading: Reading, masked: Column) -> Ints:
    """(m,) int64: the masked position of each value that was looked at; -1 for those that are not in the column."""
    positions = np.full(len(reading.there), -1, dtype=np.int64)
    positions[reading.there] = masked.codes[masked.codes >= 0]
    return positions


class Ledger(ABC):
    """What was read of one attribute in one batch: ``values``, one integer each."""

    def __init__(self, attribute: Attribute, gaps: list[int]) -> None:
        self.attribute = attribute
        self.values: list[int] = []
        self._gaps = gaps

    @abstractmethod
    def reader(self) -> Read:
        """A function that reads a record's codes, or raises Unfit and then notes nothing.

        It leaves gaps in the place of codes and of what belongs to them, and blanks what belongs to no code.
        """

    @abstractmethod
    def cut_back(self, records: int) -> None:
        """Forgets all but the first records."""

    @abstractmethod
    def gather(self) -> Reading:
        """What was read."""

    def _settle(self, found: Sequence[Slot], asides: Sequence[Aside], number: int) -> int:
        """The value of the first slot, as value ``number``; further slots are treated as copies."""
        if not found or self._is_absent(*found[0]):
            self._absent(asides)
            return NOTHING
        (container, key), *further = found
        value = self.attribute.value(container[key])
        self._replace(value, [(container, key, CODE)], number)
        copies = [*asides, *((*slot, False) for slot in further)]
        self._replace(value, [(c, k, self.attribute.aside(c[k], is_label=label)) for c, k, label in copies], number)
        return value

    def _is_absent(self, container: Any, key: Any) -> bool:
        return container[key] is None and self.attribute.plan.missing == "keep"

    def _absent(self, asides: Iterable[Aside]) -> None:
        if self.attribute.plan.missing == "reject":
            raise self.attribute.unfit(Reason.MISSING)
        _blank(asides)

    def _replace(self, value: int, places: Iterable[tuple[Any, Any, int]], number: int) -> None:
        """Leaves a gap, of the given kind and style, in each place; null where the value is suppressed, or was null."""
        base = (number * self.attribute.total + self.attribute.number) << GAP_SHIFT
        for container, key, kind in places:
            if value < 0 or container[key] is None:
                container[key] = None
            else:
                container[key] = GAPS[len(self._gaps)]
                self._gaps.append(base | kind)

    def _leave(self) -> Callable[[Any, Any, int], None]:
        """A fast function that leaves gaps for a code and the label beside it, given their container."""
        total, offset, beside, gaps = self.attribute.total, self.attribute.number, self.attribute.beside, self._gaps

        def leave(container: Any, key: Any, number: int) -> None:
            base = (number * total + offset) << GAP_SHIFT
            container[key] = GAPS[len(gaps)]
            gaps.append(base)
            label = None if beside is None else container.get(beside)
            if label is not None:
                container[beside] = GAPS[len(gaps)]
                gaps.append(base | LABEL | (letter_case(label) if type(label) is str else OWN_CASE))

        return leave


class ScalarLedger(Ledger):
    """Of an attribute of one code a record: as many values as records."""

    def __init__(self, attribute: Attribute, gaps: list[int]) -> None:
        super().__init__(attribute, gaps)
        self._find = slots(attribute.plan.path)
        self._asides = [(slots(path), is_label) for path, is_label in _asides(attribute.plan)]

    def reader(self) -> Read:
        *way, last = self.attribute.plan.path.steps
        if not isinstance(last, Name) or not self.attribute.simple:
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

    def gather(self) -> Reading:
        return scalar_reading(np.array(self.values, dtype=np.int64))

    def _read(self, document: dict[str, Any]) -> None:
        asides = [(*slot, is_label) for find, is_label in self._asides for slot in find(document)]
        self.values.append(self._settle(self._find(document), asides, len(self.values)))


class ArrayLedger(Ledger):
    """Of an attribute of any number of codes a record, one for each element of a list; ``lengths``: their numbers."""

    def __init__(self, attribute: Attribute, gaps: list[int]) -> None:
        super().__init__(attribute, gaps)
        self.lengths: list[int] = []
        self._rows = _Rows(attribute.plan.path)
        self._asides = [(_Rows(path), is_label) for path, is_label in _asides(attribute.plan)]

    def reader(self) -> Read:
        around, inside = _split(self.attribute.plan.path)
        if (inside and not isinstance(inside[-1], Name)) or not self.attribute.simple:
            return self._read
        to_list, places, leave = descend(around), _places(inside), self._leave()
        known, slowly = self.attribute.known, self._read

        def read(document: dict[str, Any]) -> None:
            try:
                found = places(listed(to_list(document)))
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

    def gather(self) -> Reading:
        return array_reading(np.array(self.values, dtype=np.int64), np.array(self.lengths, dtype=np.int64))

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

    def _asides_by_element(self, document: dict[str, Any], further: Sequence[list[Json]]) -> dict[int, list[Aside]]:
        found: dict[int, list[Aside]] = {}
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
        self._lists = slots(path, around)
        self._inside = slots(path, inside) if inside else None

    def lists(self, document: dict[str, Any]) -> list[list[Json]]:
        found = [container[key] for container, key in self._lists(document)]
        if not all(type(elements) is list or elements is None for elements in found):
            raise Unfit(Reason.WRONG_SHAPE, self._path.text)
        return [elements for elements in found if elements is not None]

    def inside(self, elements: list[Json], k: int) -> list[Slot]:
        return [(elements, k)] if self._inside is None else self._inside(elements[k])


def gap_texts(
    gaps: Sequence[int],
    attributes: Sequence[Attribute],
    readings: Sequence[Reading],
    masked: MaskedBatch,
) -> list[bytes]:
    """What fills each gap, as JSON."""
    texts: list[bytes] = [b"null"] * len(gaps)
    owners, what = np.divmod(np.array(gaps, dtype=np.int64), 1 << GAP_SHIFT)
    numbers, owners = np.divmod(owners, attributes[0].total)
    styles = shared_styles(attributes, readings)
    for attribute, reading, column, style in zip(attributes, readings, masked.columns, styles, strict=True):
        mine = np.flatnonzero(owners == attribute.number)
        positions = masked_positions(reading, column)
        kinds = what[mine]
        own = np.where(kinds & KIND, kinds & STYLE, style[numbers[mine]])
        keys = positions[numbers[mine]] << STYLE_BITS | own
        _write(texts, attribute.labels, mine, keys, kinds & LABEL > 0)
        _write(texts, attribute.codes, mine, keys, kinds & LABEL == 0)
    return texts


def _write(texts: list[bytes], written: Mapping[int, bytes], gaps: Ints, keys: Ints, chosen: NDArray[np.bool_]) -> None:
    for gap, key in zip(gaps[chosen].tolist(), keys[chosen].tolist(), strict=True):
        texts[gap] = written[key]


def shared_styles(attributes: Sequence[Attribute], readings: Sequence[Reading]) -> list[Ints]:
    """Every value's style, completed by what the other codes of its record show of the same taxonomy's style."""
    kinds = [attribute.plan.concepts.taxonomy.fingerprint for attribute in attributes]
    records = max((int(row) + 1 for reading in readings for row in reading.rows[-1:]), default=0)
    seen = {kind: np.zeros(records, dtype=np.int64) for kind in kinds}
    for kind, reading in zip(kinds, readings, strict=True):
        np.bitwise_or.at(seen[kind], reading.rows, shown(reading.styles))
    return [borrow(r.styles, seen[kind][r.rows]) for kind, r in zip(kinds, readings, strict=True)]


def _places(inside: Sequence[Step]) -> Callable[[list[Json]], list[Slot]]:
    """A fast function from a list to where each element's code stands."""
    if not inside:
        return lambda elements: [(elements, position) for position in range(len(elements))]
    *way, last = inside
    walk, key = descend(way), last.key if isinstance(last, Name) else None
    return lambda elements: [(walk(element), key) for element in elements]


def _split(path: Path) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    at = path.steps.index(Each())
    return path.steps[:at], path.steps[at + 1 :]


def _asides(plan: AttributePlan) -> list[tuple[Path, bool]]:
    label = [] if plan.label is None else [(plan.label, True)]
    return [*label, *((path, False) for path in plan.copies)]


def _key_beside(plan: AttributePlan) -> str | None:
    """The label's name where it stands in the same object as the code; otherwise None."""
    if plan.label is None or plan.label.steps[:-1] != plan.path.steps[:-1]:
        return None
    code, label = plan.path.steps[-1], plan.label.steps[-1]
    return label.key if isinstance(code, Name) and isinstance(label, Name) else None


def _blank(asides: Iterable[Aside]) -> None:
    for container, key, _ in asides:
        container[key] = None


def _unknown(values: Ints) -> int:
    return int(np.count_nonzero(values & UNLISTED))


def _lost(values: Ints) -> int:
    return int(np.count_nonzero(values == SUPPRESSED))
