"""How an attribute's texts are interpreted and written, and the integers that stand for values and placeholders.

An ``AttributeCodec`` exists as long as its plan and holds the caches. The values read from one batch are held by an
``AttributeExtractor`` of the reference codec or by the ``ScanBuffers`` of the scanner. The placeholders of all
attributes are numbered together: one integer identifies what a placeholder stands for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from stream_masker.core.batch import Column
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.ontology import UNKNOWN
from stream_masker.core.ontology.mapping import LONGEST_CACHED
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.plan import AttributePlan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.style import CANONICAL, STYLE_BITS, Codes, Labels, Style, StyleCounts, style_of

SHIFT: Final = STYLE_BITS + 1
UNLISTED: Final = 1 << STYLE_BITS
TRAITS: Final = UNLISTED - 1
NO_VALUE: Final = -1 << SHIFT
SUPPRESSED: Final = NO_VALUE | UNLISTED
"""A value as one integer: ``position << SHIFT | UNLISTED | traits``, where UNLISTED marks a code that is known by its
prefix only, and the traits of its text are counted (``pipeline.style``); or NO_VALUE, for an absent value or an empty
text, or SUPPRESSED, for an unknown code under ``unknown: suppress``."""

CODE_PLACEHOLDER: Final = 0
LABEL_PLACEHOLDER: Final = 1
PLACEHOLDER_SHIFT: Final = 1
"""A placeholder as one integer: ``(value's number · attributes + attribute) << PLACEHOLDER_SHIFT | kind``. A copy's
kind is that of the code."""

TEXT_CACHE_SIZE: Final = 200_000


class AttributeCodec:
    """One attribute of a plan, ``number`` of ``total``: how its texts are interpreted and written."""

    def __init__(self, plan: AttributePlan, number: int, total: int) -> None:
        self.plan = plan
        self.number = number
        self.total = total
        self.codes = Codes(plan.concepts, CANONICAL)
        self.labels = Labels(plan.concepts.taxonomy.labels)
        self._ids = plan.concepts.taxonomy.ids
        self._values: dict[str, int] = {}

    def set_style(self, style: Style) -> None:
        if style != self.codes.style:
            self.codes = Codes(self.plan.concepts, style)

    def value(self, text: JsonValue) -> int:
        """Return the value that a text stands for. Raises RecordRejectedError if it is not a code."""
        if type(text) is not str:
            raise self.rejection(Reason.NOT_A_CODE)
        value = self._values.get(text)
        return self._look_up(text) if value is None else value

    def prefetch(self, texts: Iterable[JsonValue]) -> None:
        """Look up the texts that have not occurred before. Looking up many at once costs less than one by one."""
        new = {text for text in texts if type(text) is str and text not in self._values}
        if new:
            self.plan.concepts.prefetch(new)

    def _look_up(self, text: str) -> int:
        if not text or text.isspace():
            if self.plan.missing == "reject":
                raise self.rejection(Reason.EMPTY)
            return self._remember(text, NO_VALUE)
        match = self.plan.concepts.find(text)
        if match.position == UNKNOWN:
            return self._remember(text, self._unknown())
        traits = style_of(text, self._ids[match.position], match.how)
        return self._remember(text, match.position << SHIFT | (UNLISTED if match.how == "ancestor" else 0) | traits)

    def _unknown(self) -> int:
        if self.plan.concepts.unknown != "suppress":
            raise self.rejection(Reason.UNKNOWN_CODE)
        return SUPPRESSED

    def _remember(self, text: str, value: int) -> int:
        if len(text) <= LONGEST_CACHED:
            if len(self._values) >= TEXT_CACHE_SIZE:
                self._values.clear()
            self._values[text] = value
        return value

    def rejection(self, reason: Reason) -> RecordRejectedError:
        """Return the exception that rejects a record because of this attribute."""
        return RecordRejectedError(reason, self.plan.path.text)


@dataclass(frozen=True, slots=True)
class ExtractedColumn:
    """One attribute of n records: the codes as a column, and facts about the m extracted values.

    present: (m,) bool, whether a value is in the column; styles: those of the texts of the present values; unknown: the
    number of values without a concept of their own; lost: the number of those that are not in the column.
    """

    column: Column
    present: BoolArray
    styles: StyleCounts
    unknown: int
    lost: int


def scalar_column(values: Int64Array) -> ExtractedColumn:
    """Return the column of an attribute with one value a record. values: (n,) int64 (``codec.attributes``)."""
    return _extracted(values, values >= 0, Column((values >> SHIFT).astype(np.int32)))


def array_column(values: Int64Array, lengths: Int64Array) -> ExtractedColumn:
    """Return the column of an array attribute. values: (m,) int64; lengths: (n,) int64, each record's number of
    values."""
    present = values >= 0
    records = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(np.bincount(records[present], minlength=len(lengths)))
    column = Column((values[present] >> SHIFT).astype(np.int32), np.concatenate(([0], ends)).astype(np.int64))
    return _extracted(values, present, column)


def masked_positions(extracted: ExtractedColumn, masked: Column) -> Int64Array:
    """Return (m,) int64: the masked position of each extracted value; -1 for values that are not in the column."""
    positions = np.full(len(extracted.present), -1, dtype=np.int64)
    positions[extracted.present] = masked.codes[masked.codes >= 0]
    return positions


def _extracted(values: Int64Array, present: BoolArray, column: Column) -> ExtractedColumn:
    return ExtractedColumn(column, present, StyleCounts.of(values[present] & TRAITS), _unknown(values), _lost(values))


def _unknown(values: Int64Array) -> int:
    return int(np.count_nonzero(values & UNLISTED))


def _lost(values: Int64Array) -> int:
    return int(np.count_nonzero(values == SUPPRESSED))
