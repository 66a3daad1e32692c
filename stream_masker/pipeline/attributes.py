"""Reading attributes' codes out of decoded records, and writing masked ones in their places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Column
from stream_masker.core.ontology import UNKNOWN
from stream_masker.pipeline.paths import Each, Json, Path, Step
from stream_masker.pipeline.plan import AttributePlan
from stream_masker.pipeline.reasons import Reason, Unfit
from stream_masker.pipeline.style import STYLE_BITS, Codes, Labels, borrow, shown, style_of
from stream_masker.pipeline.walk import Slot, descend, names, slots

Packed: TypeAlias = NDArray[np.int64]
Aside: TypeAlias = tuple[Any, Any, bool]
"""Where something stands that belongs to a code: container, key, and whether it is a label (else a copy)."""

Hit: TypeAlias = tuple[int, Any, Any, Sequence[Aside] | None]
"""A code that was read: packed, container, key, and what belongs to it; None: at most the label beside it.

Packed: ``position << SHIFT | UNLISTED (known by a prefix only) | style``; negative: nothing to mask there.
"""

SHIFT: Final = STYLE_BITS + 1
UNLISTED: Final = 1 << STYLE_BITS
STYLE: Final = UNLISTED - 1
NOTHING: Final = -1 << SHIFT
SUPPRESSED: Final = NOTHING | UNLISTED

CACHED_TEXTS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Reading:
    """One attribute of n records: their codes as a column; every code's hit and style (the column's order).

    rows: (m,) int64, the record of each code; unknown: how many values found no concept.
    """

    column: Column
    hits: list[Hit]
    styles: Packed
    rows: Packed
    unknown: int


class Attribute(ABC):
    """One attribute of a plan: ``read`` finds its codes in a record, ``gather`` makes columns, ``write`` masks."""

    def __init__(self, plan: AttributePlan) -> None:
        self.plan = plan
        self.concepts = plan.concepts
        self._known: dict[str, int] = {}
        self._codes = Codes(plan.concepts)
        self._labels = Labels(plan.concepts.taxonomy.labels)
        self._beside = _key_beside(plan)
        self._simple = not plan.copies and (plan.label is None or self._beside is not None)

    @abstractmethod
    def reader(self) -> Callable[[dict[str, Any]], Any]:
        """A function from a record to its hit (array attribute: list of hits).

        It raises Unfit, and it blanks what belongs to a code that is suppressed or may be missing.
        """

    @abstractmethod
    def gather(self, found: Sequence[Any]) -> Reading:
        """What ``reader`` found in n records, as one column."""

    def write(self, hits: Sequence[Hit], masked: NDArray[np.int32], styles: Packed) -> None:
        """Writes (m,) masked positions in the places of m hits, each in its style, with labels and copies."""
        keys = (masked.astype(np.int64) << STYLE_BITS | styles).tolist()
        codes, beside = self._codes, self._beside
        for (_, container, key, asides), written in zip(hits, keys, strict=True):
            container[key] = codes[written]
            if asides is not None:
                self._write_asides(asides, written)
            elif beside is not None and beside in container:
                container[beside] = self._labels.like(container[beside], written >> STYLE_BITS)

    def _write_asides(self, asides: Iterable[Aside], written: int) -> None:
        position = written >> STYLE_BITS
        for container, key, is_label in asides:
            original = container[key]
            if is_label:
                container[key] = self._labels.like(original, position)
            elif original is not None:
                container[key] = self._codes[position << STYLE_BITS | self._style(original, written)]

    def _style(self, copy: Json, written: int) -> int:
        match = self.concepts.find(copy) if type(copy) is str else None
        if match is None or match.position == UNKNOWN:
            return written & STYLE
        return style_of(copy, self.concepts.taxonomy.ids[match.position], match.how)

    def _settle(self, found: Sequence[Slot], asides: Sequence[Aside]) -> Hit | None:
        """The hit of the first slot, or None where nothing is; further slots are treated as copies."""
        if not found or self._is_absent(*found[0]):
            self._absent(asides)
            return None
        container, key = found[0]
        copies = [(*slot, False) for slot in found[1:]]
        return self._judge(container, key, [*asides, *copies])

    def _is_absent(self, container: Any, key: Any) -> bool:
        return container[key] is None and self.plan.missing == "keep"

    def _judge(self, container: Any, key: Any, asides: Sequence[Aside]) -> Hit:
        packed = self._pack(container[key])
        if packed >= 0:
            return packed, container, key, asides
        _blank([*asides, (container, key, False)])
        return packed, None, None, None

    def _absent(self, asides: Sequence[Aside]) -> None:
        if self.plan.missing == "reject":
            raise self._unfit(Reason.MISSING)
        _blank(asides)

    def _pack(self, text: Json) -> int:
        if type(text) is not str:
            raise self._unfit(Reason.NOT_A_CODE)
        known = self._known.get(text)
        return self._look_up(text) if known is None else known

    def _look_up(self, text: str) -> int:
        if not text or text.isspace():
            raise self._unfit(Reason.EMPTY)
        match = self.concepts.find(text)
        if match.position == UNKNOWN:
            return self._unknown()
        style = style_of(text, self.concepts.taxonomy.ids[match.position], match.how)
        packed = match.position << SHIFT | (UNLISTED if match.how == "ancestor" else 0) | style
        return self._remember(text, packed)

    def _unknown(self) -> int:
        if self.concepts.unknown != "suppress":
            raise self._unfit(Reason.UNKNOWN_CODE)
        return SUPPRESSED

    def _remember(self, text: str, packed: int) -> int:
        if len(self._known) >= CACHED_TEXTS:
            self._known.clear()
        self._known[text] = packed
        return packed

    def _unfit(self, reason: Reason) -> Unfit:
        return Unfit(reason, self.plan.path.text)


class ScalarAttribute(Attribute):
    """An attribute of one code a record."""

    def __init__(self, plan: AttributePlan) -> None:
        super().__init__(plan)
        self._find = slots(plan.path)
        self._asides = [(slots(path), is_label) for path, is_label in _asides(plan)]

    def reader(self) -> Callable[[dict[str, Any]], Hit]:
        keys = names(self.plan.path.steps)
        if keys is None or not self._simple:
            return self._read
        return _fast(descend(keys[:-1]), keys[-1], self._known, self._read)

    def gather(self, found: Sequence[Hit]) -> Reading:
        packed = _packed(found)
        present = packed >= 0
        hits = list(found) if present.all() else list(compress(found, present.tolist()))
        column = Column((packed >> SHIFT).astype(np.int32))
        return Reading(column, hits, packed[present] & STYLE, np.flatnonzero(present), _unknown(packed))

    def _read(self, document: dict[str, Any]) -> Hit:
        asides = [(*slot, is_label) for find, is_label in self._asides for slot in find(document)]
        return self._settle(self._find(document), asides) or (NOTHING, None, None, None)


class ArrayAttribute(Attribute):
    """An attribute of any number of codes a record: one for each element of a list."""

    def __init__(self, plan: AttributePlan) -> None:
        super().__init__(plan)
        self._rows = _Rows(plan.path)
        self._asides = [(_Rows(path), is_label) for path, is_label in _asides(plan)]

    def reader(self) -> Callable[[dict[str, Any]], list[Hit]]:
        around, inside = _split(self.plan.path)
        outer, inner = names(around), names(inside)
        if outer is None or not inner or not self._simple:
            return self._read
        to_list, read_slowly = descend(outer), self._read
        read = _fast(descend(inner[:-1]), inner[-1], self._known, _astray)

        def read_all(document: dict[str, Any]) -> list[Hit]:
            try:
                return [read(element) for element in _list(to_list(document))]
            except (KeyError, TypeError):
                return read_slowly(document)

        return read_all

    def gather(self, found: Sequence[list[Hit]]) -> Reading:
        every = [hit for hits in found for hit in hits]
        packed = _packed(every)
        present = packed >= 0
        rows = np.repeat(np.arange(len(found)), [len(hits) for hits in found])[present]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(found))))).astype(np.int64)
        column = Column((packed[present] >> SHIFT).astype(np.int32), offsets)
        hits = list(compress(every, present.tolist()))
        return Reading(column, hits, packed[present] & STYLE, rows, _unknown(packed))

    def _read(self, document: dict[str, Any]) -> list[Hit]:
        lists = self._rows.lists(document)
        asides = self._asides_by_element(document, lists[1:])
        if not lists:
            self._absent([aside for element in asides.values() for aside in element])
            return []
        settled = [self._settle(self._rows.inside(lists[0], k), asides.pop(k, ())) for k in range(len(lists[0]))]
        _blank(aside for element in asides.values() for aside in element)
        return [hit for hit in settled if hit is not None]

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


def attribute(plan: AttributePlan) -> Attribute:
    """The reader and writer of a planned attribute."""
    return ArrayAttribute(plan) if plan.is_array else ScalarAttribute(plan)


def shared_styles(attributes: Sequence[Attribute], readings: Sequence[Reading], records: int) -> list[Packed]:
    """Every reading's styles, completed by what the other codes of the record show of the same taxonomy's style."""
    kinds = [part.concepts.taxonomy.fingerprint for part in attributes]
    seen = {kind: np.zeros(records, dtype=np.int64) for kind in kinds}
    for kind, reading in zip(kinds, readings, strict=True):
        np.bitwise_or.at(seen[kind], reading.rows, shown(reading.styles))
    return [borrow(r.styles, seen[kind][r.rows]) for kind, r in zip(kinds, readings, strict=True)]


def _fast(
    walk: Callable[[Any], Any], key: str, known: dict[str, int], slow: Callable[[Any], Hit]
) -> Callable[[Any], Hit]:
    def read(value: Any) -> Hit:
        try:
            container = walk(value)
            return known[container[key]], container, key, None
        except (KeyError, TypeError):
            return slow(value)

    return read


def _astray(_: Json) -> Hit:
    raise KeyError


def _list(value: Json) -> list[Json]:
    if type(value) is not list:
        raise TypeError
    return value


def _split(path: Path) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    at = path.steps.index(Each())
    return path.steps[:at], path.steps[at + 1 :]


def _asides(plan: AttributePlan) -> list[tuple[Path, bool]]:
    label = [] if plan.label is None else [(plan.label, True)]
    return [*label, *((path, False) for path in plan.copies)]


def _key_beside(plan: AttributePlan) -> str | None:
    """The label's name where it stands in the same object as the code, both under names; otherwise None."""
    if plan.label is None or plan.label.steps[:-1] != plan.path.steps[:-1]:
        return None
    last = names((plan.path.steps[-1], plan.label.steps[-1]))
    return None if last is None else last[1]


def _blank(asides: Iterable[Aside]) -> None:
    for container, key, _ in asides:
        container[key] = None


def _packed(hits: Sequence[Hit]) -> Packed:
    return np.fromiter((hit[0] for hit in hits), np.int64, len(hits))


def _unknown(packed: Packed) -> int:
    return int(np.count_nonzero(packed & UNLISTED))
