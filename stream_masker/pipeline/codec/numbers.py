"""Numeric attributes: reading numbers out of decoded records, leaving gaps in their places, and writing masked ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any, Final

import numpy as np
import orjson

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import LARGEST_NUMBER, Numeric
from stream_masker.pipeline.codec.attributes import PLACEHOLDER_SHIFT
from stream_masker.pipeline.codec.reference.matching import matching_slots
from stream_masker.pipeline.codec.reference.template import PLACEHOLDERS
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.plan import NumericPlan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError


class NumericCodec:
    """One numeric attribute of a plan, ``number`` of the ``total`` attributes of either kind."""

    def __init__(self, plan: NumericPlan, number: int, total: int) -> None:
        self.plan = plan
        self.number = number
        self.total = total
        self._find = matching_slots(plan.path)
        self._lower, self._upper = max(plan.kind.lower, -LARGEST_NUMBER), min(plan.kind.upper, LARGEST_NUMBER)

    def reader(self, column: list[float], gaps: list[int]) -> Callable[[dict[str, Any]], None]:
        """A function that notes a record's number (NaN for none) in ``column``, and leaves gaps in its place.

        It raises Unfit, and then notes nothing, for anything but a number that the attribute takes. Numbers in texts
        are none.
        """

        def read(document: dict[str, Any]) -> None:
            found = self._find(document)
            value = self._value([container[key] for container, key in found])
            gap = (len(column) * self.total + self.number) << PLACEHOLDER_SHIFT
            for container, key in found:
                if container[key] is not None:
                    container[key] = PLACEHOLDERS[len(gaps)]
                    gaps.append(gap)
            column.append(value)

        return read

    def _value(self, found: Sequence[JsonValue]) -> float:
        if not found:
            return self._absent(Reason.MISSING)
        if found[0] is None:
            for further in found:
                self._require_null(further)
            return self._absent(Reason.NOT_A_NUMBER)
        return self._number(found[0])

    def _absent(self, reason: Reason) -> float:
        if self.plan.missing == "reject":
            raise self._unfit(reason)
        return nan

    def _require_null(self, value: JsonValue) -> None:
        """Where the first match has no number, the others must not keep theirs."""
        if value is not None:
            raise self._unfit(Reason.NOT_A_NUMBER)

    def _number(self, value: JsonValue) -> float:
        if type(value) not in (int, float):
            raise self._unfit(Reason.NOT_A_NUMBER)
        number = float(value)
        if not self._lower <= number <= self._upper or (self.plan.kind.integer and not number.is_integer()):
            raise self._unfit(Reason.NUMBER_OUT_OF_RANGE)
        return number

    def _unfit(self, reason: Reason) -> RecordRejectedError:
        return RecordRejectedError(reason, self.plan.path.text)


def as_matrix(columns: Sequence[Sequence[float]]) -> Float64Array | None:
    """(n, q) of q columns; None for none."""
    return np.array(columns, dtype=np.float64).T.copy() if columns else None


def write_numbers(
    texts: list[bytes], gaps: Sequence[int], attributes: Sequence[NumericCodec], masked: Float64Array | None
) -> None:
    """Puts the masked numbers, as JSON, where gaps are for them; an integer attribute's without a fraction."""
    if masked is None:
        return
    numbers, owners = np.divmod(np.array(gaps, dtype=np.int64) >> PLACEHOLDER_SHIFT, attributes[0].total)
    for attribute, column in zip(attributes, masked.T.tolist(), strict=True):
        mine = np.flatnonzero(owners == attribute.number)
        for gap, row in zip(mine.tolist(), numbers[mine].tolist(), strict=True):
            texts[gap] = json_number(column[row], attribute.plan.kind)


def json_number(value: float, kind: Numeric) -> bytes:
    """A number as JSON; null for NaN."""
    if isnan(value):
        return NULL
    return b"%d" % int(value) if kind.integer else orjson.dumps(value)


NULL: Final = b"null"


def check_numbers(before: Float64Array | None, after: Float64Array | None, kinds: Sequence[Numeric]) -> None:
    """Raises ValueError unless exactly the numbers that were there have become numbers of their attributes."""
    if before is None or after is None:
        if before is not None or after is not None:
            raise ValueError("the mechanism did not mask every number")
        return
    there = ~np.isnan(before)
    if before.shape != after.shape or not np.array_equal(there, ~np.isnan(after)):
        raise ValueError("the mechanism did not mask every number")
    for j, kind in enumerate(kinds):
        if not kind.admits(after[there[:, j], j]).all():
            raise ValueError("the mechanism masked a number by one that its attribute does not take")
